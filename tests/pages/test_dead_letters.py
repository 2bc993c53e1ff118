"""Dead letters: unmatched signals and undelivered messages, who sees them, and the actions on them."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from ledger import clock
from reviewqueue.models import SignalAct
from reviewqueue.queries import dead_letters as letters
from reviewqueue.webhooks.models import Delivery, DeliveryStatus
from runs.errors import InputInvalid
from runs.models import Signal
from tests import builders
from tests.pages import desk
from tests.runs.test_external_signals import an_event, receive
from tests.webhooks.receiver import receiver
from tests.webhooks.webhook_builders import an_endpoint, publish

pytestmark = pytest.mark.django_db


@pytest.fixture
def owner():
    return builders.a_person("own@example.org", "agent-owners")


@pytest.fixture
def operator():
    return builders.a_person("ops@example.org", "operators")


def a_dead_signal(sender_id: str = "evt-1", **wanted) -> Signal:
    signal = receive(sender_id=sender_id, **wanted).signal
    Signal.objects.filter(pk=signal.pk).update(keep_until=clock.now() - timedelta(seconds=1))
    signal.refresh_from_db()
    return signal


def a_misfit() -> Signal:
    builders.a_waiting_interrupt(an_event(input_schema={"type": "object", "required": ["amount"]}))
    with pytest.raises(InputInvalid):
        receive(body={"flight": "LH 400"})
    return Signal.objects.get()


def a_dead_message() -> Delivery:
    with receiver() as server:
        an_endpoint(server.url, "run.started")
    builders.a_running_run(title="PR-4711")
    publish()
    Delivery.objects.update(
        status=DeliveryStatus.DEAD, next_at=None, ended_at=clock.now(), tries=12, trouble="It answered 500."
    )
    return Delivery.objects.get()


def page(client: Client, query: str = "") -> str:
    return client.get(f"/dead-letters{query}").content.decode()


def plain(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def act(client: Client, signal: Signal, verb: str, reason: str = "looked at it") -> str:
    return client.post(f"/dead-letters/{signal.public_id}/{verb}", {"reason": reason}, follow=True).content.decode()


def test_an_owner_sees_the_unmatched_signals_of_their_agent(owner):
    signal = a_dead_signal(body={"flight": "LH 400", "note": "<b>urgent</b>"})
    html = page(desk.signed_in(owner))
    told = plain(html)
    for words in ("delivered", "PO-2231", "evt-1", "for agent purchase-requests", "no request matched until", "LH 400"):
        assert words in told, words
    assert "<b>urgent" not in html
    assert f"/dead-letters/{signal.public_id}/dismiss" in html
    assert "/keep" not in html  # an owner can dismiss a signal, only an operator can keep it


def test_a_signal_of_the_wrong_form_says_so(owner):
    a_misfit()
    assert "its body did not match the request" in plain(page(desk.signed_in(owner)))


def test_what_is_kept_or_was_used_is_no_dead_letter(owner):
    receive(sender_id="kept")
    builders.a_waiting_interrupt(an_event(correlation="PO-1"))
    receive(sender_id="used", correlation="PO-1")
    html = page(desk.signed_in(owner))
    assert "No unmatched signals" in html


def test_dismissed_with_a_reason_it_leaves_the_list_and_is_kept(owner):
    signal = a_dead_signal()
    client = desk.signed_in(owner)
    assert "Dismissed." in act(client, signal, "dismiss", "sent twice by the ERP")
    assert signal.public_id not in page(client)
    done = SignalAct.objects.get()
    assert (done.act, done.person, done.reason) == ("dismiss", owner, "sent twice by the ERP")
    whole = plain(client.get(f"/dead-letters/{signal.public_id}").content.decode())
    assert "dismissed by own@example.org" in whole
    assert "LH 400" in whole
    assert "no longer a dead letter" in act(client, signal, "dismiss")
    assert SignalAct.objects.count() == 1


def test_an_operator_keeps_a_signal_longer_and_it_answers_its_open_request(operator):
    signal = a_dead_signal()
    wait = builders.a_waiting_interrupt(an_event())
    assert "The signal answered its request." in act(desk.signed_in(operator), signal, "keep", "the order was late")
    wait.refresh_from_db()
    signal.refresh_from_db()
    assert (wait.status, signal.used_by) == ("answered", wait)
    assert SignalAct.objects.get().act == "keep"


def test_a_signal_kept_longer_answers_a_later_request(operator):
    signal = a_dead_signal()
    assert "kept for 7 more days" in act(desk.signed_in(operator), signal, "keep")
    signal.refresh_from_db()
    assert signal.keep_until > clock.now() + timedelta(days=6)
    assert builders.a_waiting_interrupt(an_event()).status == "answered"


def test_a_misfit_that_still_does_not_fit_stays_a_dead_letter(operator):
    signal = a_misfit()
    client = desk.signed_in(operator)
    assert "still a dead letter" in act(client, signal, "keep")
    assert signal.public_id in page(client)
    assert "kept longer by ops@example.org" in plain(page(client))


def test_an_owner_cannot_keep_it_longer(owner):
    signal = a_dead_signal()
    assert "Only operators can keep a signal longer" in act(desk.signed_in(owner), signal, "keep")
    signal.refresh_from_db()
    assert signal.keep_until < clock.now()
    assert not SignalAct.objects.exists()


def test_what_is_no_dead_letter_is_neither_kept_nor_dismissed(operator):
    signal = receive().signal
    client = desk.signed_in(operator)
    for verb in ("keep", "dismiss"):
        assert "no longer a dead letter" in act(client, signal, verb)
    assert not SignalAct.objects.exists()


@pytest.mark.parametrize("who", ["a reviewer", "another owner"])
def test_others_find_nothing(who):
    signal, message = a_dead_signal(), a_dead_message()
    other = {
        "a reviewer": lambda: builders.a_reviewer("ben@example.org"),
        "another owner": lambda: builders.a_person(
            "zoe@example.org", builders.an_agent("another", "other-owners").owner.name
        ),
    }[who]()
    client = desk.signed_in(other)
    for query in ("", "?of=messages"):
        assert "PO-2231" not in page(client, query)
        assert "PR-4711" not in page(client, query)
    assert client.get(f"/dead-letters/{signal.public_id}").status_code == 404
    assert client.post(f"/dead-letters/{signal.public_id}/dismiss", {"reason": "x"}).status_code == 404
    assert client.post(f"/dead-letters/messages/{message.public_id}").status_code == 404


@pytest.mark.parametrize("reason", ["", "  ", "x" * 301, "a\x00"])
def test_without_a_good_reason_nothing_is_done(owner, reason):
    signal = a_dead_signal()
    assert "Nothing was changed." in act(desk.signed_in(owner), signal, "dismiss", reason)
    assert not SignalAct.objects.exists()


def test_there_are_no_other_acts(operator):
    assert desk.signed_in(operator).post(f"/dead-letters/{a_dead_signal().public_id}/use").status_code == 404


def test_a_message_that_was_given_up_is_sent_once_more(owner):
    message = a_dead_message()
    client = desk.signed_in(owner)
    told = plain(page(client, "?of=messages"))
    for words in ("run.started", "127.0.0.1", "PR-4711", "after 12 attempts: It answered 500."):
        assert words in told, words
    told = client.post(f"/dead-letters/messages/{message.public_id}", follow=True).content.decode()
    assert "The message is sent again now" in told
    message.refresh_from_db()
    assert (message.status, message.tries) == (DeliveryStatus.DUE, 0)
    assert message.public_id not in told


def test_every_entry_of_a_large_body_can_be_reached(owner):
    signal = a_dead_signal(body={"lines": [f"Part {number}" for number in range(900)]})
    client = desk.signed_in(owner)
    assert "Part 899" not in page(client)
    html = client.get(f"/dead-letters/{signal.public_id}").content.decode()
    assert "Showing 1 to 499 of 900 entries." in html
    address = re.search(r'href="([^"]+)">Show the rest', html)[1]
    assert address == f"/dead-letters/{signal.public_id}/body?at=%2Flines"
    seen, query = "", "?"
    while query:
        html = client.get(f"/dead-letters/{signal.public_id}/body{query}").content.decode()
        seen += html
        following = re.search(r'rel="next" href="([^"]+)"', html)
        query = following[1].replace("&amp;", "&") if following else ""
    assert [int(number) for number in re.findall(r">Part ([0-9]+)<", seen)] == list(range(900))
    stranger = desk.signed_in(builders.a_reviewer("ben@example.org"))
    assert stranger.get(f"/dead-letters/{signal.public_id}/body").status_code == 404


def test_pages_follow_each_other_and_cost_the_same(owner, monkeypatch):
    monkeypatch.setattr(letters, "PAGE_SIZE", 3)
    client, seen, query = desk.signed_in(owner), [], ""

    def statements() -> int:
        with CaptureQueriesContext(connection) as captured:
            page(client)
        return len(captured)

    a_dead_signal("evt-0")
    few = statements()
    for number in range(1, 7):
        a_dead_signal(f"evt-{number}")
    assert statements() == few <= 20
    while query is not None:
        html = page(client, query)
        seen += re.findall(r'<td>\s*<a href="/dead-letters/(sig_\w+)"', html)
        following = re.search(r'rel="next" href="/dead-letters(\?[^"]+)"', html)
        query = following[1] if following else None
    assert seen == list(Signal.objects.order_by("-pk").values_list("public_id", flat=True))
    assert len(seen) == 7


@pytest.mark.parametrize("query", ["?after=x", "?after=99999999999999999999", "?of=x", "?of=messages&after=-1"])
def test_what_cannot_be_read_in_the_address_leads_to_the_list(owner, query):
    assert desk.signed_in(owner).get(f"/dead-letters{query}").status_code == 200


def test_the_page_of_agents_leads_there(owner):
    a_dead_signal()
    assert 'href="/dead-letters"' in desk.signed_in(owner).get("/agents").content.decode()
