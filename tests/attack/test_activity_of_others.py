"""What happens in queues that a person does not see changes nothing that they can read: no body, no tag, no number."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from ledger import clock
from reviewqueue import reviewer_actions as acts
from reviewqueue.operations.api_keys import create_agent_key, create_personal_token
from reviewqueue.pages import live_updates
from reviewqueue.queries import dead_letters, inbox, page_queries
from runs.external_signals import SignalRequest, receive_signal
from runs.models import Fact, Signal
from tests import builders
from tests.api.calls import Caller
from tests.pages import desk

pytestmark = pytest.mark.django_db
LIST = {"HX-Request": "true", "HX-Target": "list"}
LISTS = (
    "/",
    *(f"/?view={view}" for view in inbox.View),
    "/?q=hoist",
    "/?queue=engineering",
    "/?risk=high&agent=refunds",
)
PAGES = (
    *LISTS,
    "/runs",
    "/runs?of=stranded",
    "/expired",
    "/dead-letters",
    "/dead-letters?of=messages",
    "/insights",
    "/agents",
)
CALLS = ("interrupts", "runs", "insights", "agents/me", "waits/stranded?code_version=2")
CALLS_OF_AGENTS = (*CALLS, "events", "signals", "webhooks", "deliveries")


@pytest.fixture(autouse=True)
def no_quarter_of_a_minute_ends(monkeypatch):
    monkeypatch.setattr(live_updates, "RENDERED_AFTER", 10**9)


def read(client: Client, address: str, **headers: str) -> tuple[str, str, str]:
    answer = client.get(address, headers=headers)
    assert answer.status_code in (200, 403)
    text = re.sub(r'(csrfmiddlewaretoken" value=|csrf-token" content=)"[^"]*"', "", answer.content.decode())
    text = re.sub(r'(datetime|data-until|data-now|data-end)="[^"]*"|[0-9]{2}:[0-9]{2}', "", text)
    return text, answer.headers.get("ETag", ""), answer.headers.get("Last-Modified", "")


def everything_moves() -> None:
    """A request is created, claimed, commented and decided; another stays open; a run starts; a signal is left over."""
    ben = builders.a_reviewer("ben@example.org")
    interrupt = builders.a_waiting_interrupt()
    acts.claim_request(responder=ben, interrupt_id=interrupt.public_id)
    acts.add_comment(responder=ben, interrupt_id=interrupt.public_id, text="Seen")
    builders.decide(interrupt, ben)
    builders.a_waiting_interrupt()
    builders.a_running_run()


def a_reviewer_of_an_empty_queue() -> Client:
    return desk.signed_in(builders.a_reviewer("zoe@example.org", "an-empty-queue"))


@pytest.fixture
def zoe() -> Client:
    return a_reviewer_of_an_empty_queue()


@pytest.mark.parametrize("address", LISTS)
def test_the_tag_of_a_live_list_is_the_same_whatever_happens_elsewhere(address, monkeypatch):
    monkeypatch.setattr(live_updates, "RENDERED_AFTER", 10**9)
    zoe = a_reviewer_of_an_empty_queue()
    builders.a_waiting_interrupt()
    before = zoe.get(address, headers=LIST)
    everything_moves()
    assert zoe.get(address, headers=LIST)["ETag"] == before["ETag"]
    assert zoe.get(address, headers=LIST | {"If-None-Match": before["ETag"]}).status_code == 304


def test_the_tag_of_a_list_with_a_row_moves_with_that_row_alone(zoe):
    builders.a_queue("an-empty-queue")
    own = desk.a_refund(1, wish={"queue": "an-empty-queue", "risk": "low"})
    tag = zoe.get("/", headers=LIST)["ETag"]
    everything_moves()
    desk.a_refund(2)  # of the same agent
    assert zoe.get("/", headers=LIST)["ETag"] == tag
    acts.claim_request(responder=builders.a_reviewer("leo@example.org", "an-empty-queue"), interrupt_id=own.public_id)
    assert zoe.get("/", headers=LIST)["ETag"] != tag


@pytest.mark.parametrize("address", PAGES)
def test_a_page_reads_the_same_whatever_happens_elsewhere(zoe, address):
    builders.a_waiting_interrupt()
    before = read(zoe, address)
    everything_moves()
    assert read(zoe, address) == before


@pytest.mark.parametrize("kind", ["person", "agent"])
def test_the_api_tells_a_key_nothing_of_what_happens_elsewhere(kind):
    builders.a_waiting_interrupt()
    agent, person = builders.an_agent("another"), builders.a_reviewer("zoe@example.org", "an-empty-queue")
    caller = Caller((create_agent_key(agent) if kind == "agent" else create_personal_token(person)).text)
    calls = CALLS_OF_AGENTS if kind == "agent" else CALLS

    def told() -> list[str]:
        texts = [str(caller.get(path).body) for path in calls]
        return [re.sub(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z", "", text) for text in texts]

    told()
    before = told()
    everything_moves()
    assert told() == before


class TestPrimaryKeys:
    """They count the rows of everybody: two of them tell how much happened in between."""

    @pytest.fixture(autouse=True)
    def pages_of_one_row(self, monkeypatch):
        for module, name in ((inbox, "PAGE_SIZE"), (page_queries, "RUNS"), (dead_letters, "PAGE_SIZE")):
            monkeypatch.setattr(module, name, 1)

    def test_no_form_of_a_reviewer_holds_the_key_of_a_fact(self):
        person = desk.lena()
        interrupt = desk.an_order()
        desk.change_a_fact(interrupt)
        client = desk.signed_in(person)
        numbers = {f"{fact.pk}" for fact in Fact.objects.all()}
        html = client.get(f"/interrupts/{interrupt.public_id}").text
        names = set(re.findall(r'name="seen-([^"-]+)-', html))
        assert names
        assert not names & numbers

    @pytest.mark.parametrize("address", ["/", "/?view=unclaimed", "/runs"])
    def test_the_address_of_a_next_page_holds_none_and_leads_on(self, address):
        client, interrupts = desk.signed_in(desk.lena()), [desk.a_refund(number) for number in range(3)]
        html = client.get(address).text
        place = re.findall(r"after=([^\"&]+)", html)[0]
        ids = {it.public_id for it in interrupts} | {it.run.public_id for it in interrupts}
        assert place.rpartition("%7E")[2].rpartition("~")[2] in ids
        joint = "&" if "?" in address else "?"
        onward = client.get(f"{address}{joint}after={place}").text
        assert onward != html
        shown = [it for it in ids if f"/{it}" in onward]
        assert shown
        assert not any(f"/{it}" in html for it in shown if it.startswith(("int", "run")))

    def test_the_address_of_the_next_signals_holds_none_and_leads_on(self):
        owner = builders.a_person("own@example.org", "agent-owners")
        for number in range(3):
            told = SignalRequest(
                sender_id=f"evt-{number}", correlation="PO-2231", type="delivered", body={"flight": "LH 400"}
            )
            receive_signal(agent=builders.an_agent(), told=told)
        Signal.objects.update(keep_until=clock.now())
        letters = dead_letters.list_dead_signals(owner)
        assert letters.next == letters.signals[0].signal.public_id
        second = dead_letters.list_dead_signals(owner, after=letters.next)
        assert [it.signal.public_id for it in second.signals] != [it.signal.public_id for it in letters.signals]
