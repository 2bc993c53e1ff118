"""Webhook deliveries: types, endpoints, signatures, retries. The public verifier checks every message."""

from __future__ import annotations

import json
import re
import socket
from datetime import timedelta
from pathlib import Path

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from ledger import clock
from ledger.errors import KeyReused, NotFound, PayloadInvalid
from reviewqueue.webhooks import deliveries, endpoints, signing
from reviewqueue.webhooks.event_types import READY, TYPES
from reviewqueue.webhooks.models import (
    DELIVERY_MOVES,
    Delivery,
    DeliveryAttempt,
    DeliveryStatus,
    WebhookEndpoint,
    WebhookSecret,
)
from runs.errors import NotReady, RateLimited
from runs.models import Continuation, Event
from runs.use_cases import control_run
from tests import builders
from tests.webhooks.webhook_builders import an_endpoint, make_everything_due, publish, publish_and_send, send

pytestmark = pytest.mark.django_db

SOURCES = Path(__file__).resolve().parents[2]


def an_answered_wait():
    interrupt = builders.a_waiting_interrupt()
    builders.decide(interrupt, builders.a_reviewer())
    return interrupt


# --- messages -----------------------------------------------------------------------------------------------------------


@pytest.mark.proves(10)
def test_a_ready_continuation_is_published_signed_and_with_ids_only(at_home):
    made = an_endpoint(at_home.url, READY)
    interrupt = an_answered_wait()
    publish_and_send()
    [got] = at_home.got
    message = got.verified_by(made.secret)
    continuation = Continuation.objects.get()
    sequence = Event.objects.get(type="interrupt.answered").announced_seq
    assert message == {
        "type": "continuation.ready",
        "timestamp": message["timestamp"],
        "data": {
            "run": interrupt.run.public_id,
            "continuation": continuation.public_id,
            "interrupt": interrupt.public_id,
            "decision": message["data"]["decision"],
            "sequence": sequence,
        },
    }
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", message["timestamp"])


def test_no_message_holds_an_answer_a_name_or_a_reason(at_home):
    an_endpoint(at_home.url)
    interrupt = builders.a_waiting_interrupt()
    builders.decide(interrupt, builders.a_reviewer("secret.reviewer@example.org"), "reject", message="secret text")
    control_run.cancel_run(
        run_id=interrupt.run.public_id, actor="person:secret", reason="secret", check=lambda run: None
    )
    publish_and_send()
    assert len(at_home.got) >= 4
    for got in at_home.got:
        assert b"secret" not in got.body
        assert b"reject" not in got.body
        assert b"@" not in got.body


def test_a_revalidated_fact_publishes_the_continuation_too(at_home):
    an_endpoint(at_home.url, READY)
    interrupt = builders.a_waiting_interrupt(facts=[builders.a_checked_fact()])
    builders.decide(interrupt, builders.a_reviewer())
    publish_and_send()
    assert at_home.got == []
    builders.check(Continuation.objects.get().public_id, found=7)
    publish_and_send()
    [got] = at_home.got
    assert json.loads(got.body)["data"]["interrupt"] == interrupt.public_id


def test_one_event_can_have_two_types(at_home):
    an_endpoint(at_home.url, READY, "interrupt.answered")
    an_answered_wait()
    publish_and_send()
    assert sorted(json.loads(got.body)["type"] for got in at_home.got) == ["continuation.ready", "interrupt.answered"]
    assert len({got.headers["webhook-id"] for got in at_home.got}) == 2


def test_every_recorded_event_type_can_be_subscribed_to():
    written = set()
    for source in [*SOURCES.glob("runs/**/*.py"), *SOURCES.glob("reviewqueue/**/*.py")]:
        for found in re.finditer(r'(?:note|record_event)\(\s*run,\s*f?"([a-z_{}.]+)"', source.read_text()):
            written.add(found[1])
    assert "run.suspended" in written
    plain = {word for word in written if "{" not in word}
    new = plain - set(TYPES)
    assert not new, f"describe {sorted(new)} in event_types.TYPES and docs/webhooks.md"
    assert {word.split(".")[0] for word in written - plain} <= {"run", "effect"}


@pytest.mark.proves(23)
def test_an_event_published_again_after_a_restored_backup_keeps_its_id(at_home):
    an_endpoint(at_home.url, "interrupt.answered")
    an_answered_wait()
    publish_and_send()
    DeliveryAttempt.objects.all().delete()
    Delivery.objects.all().delete()  # the backup is older than the message
    Event.objects.update(announced_at=None, announced_seq=None)
    publish_and_send()
    first, again = at_home.got
    assert first.headers["webhook-id"] == again.headers["webhook-id"]


def test_an_endpoint_gets_only_its_types_and_only_of_its_agent(at_home):
    an_endpoint(at_home.url, "run.completed")
    an_endpoint(at_home.url, "run.started", agent=builders.an_agent("invoices"))
    an_answered_wait()
    publish_and_send()
    assert at_home.got == []


def test_who_subscribes_late_hears_what_comes_and_can_ask_for_what_was(at_home):
    """C031: before the request, while it is open, and after its decision."""
    interrupt = builders.a_waiting_interrupt()
    early = an_endpoint(at_home.url, "run.suspended", "interrupt.answered")
    builders.decide(interrupt, builders.a_reviewer())
    an_endpoint(at_home.url + "/late", "interrupt.answered")
    publish_and_send()
    told = [(got.path, json.loads(got.body)["type"]) for got in at_home.got]
    assert told == [("/hooks", "interrupt.answered")], "and GET interrupts returns the earlier state"
    assert early.endpoint.deliveries.count() == 1


def test_messages_contain_their_order_even_if_the_first_one_failed(at_home):
    """C187: each is a snapshot with its number, whatever came meanwhile."""
    an_endpoint(at_home.url, "run.suspended", "interrupt.answered", "run.cancelled")
    at_home.will("broken", 200)
    interrupt = an_answered_wait()
    run_id = interrupt.run.public_id
    control_run.cancel_run(run_id=run_id, actor="person:ana", reason="no more", check=lambda run: None)
    publish_and_send()
    make_everything_due()
    send()
    said = [json.loads(got.body) for got in at_home.got]
    suspended = [message for message in said if message["type"] == "run.suspended"]
    assert len(suspended) == 2
    assert suspended[0] == suspended[1] == said[0]
    last = {message["data"]["sequence"]: message["type"] for message in said}
    assert [last[number] for number in sorted(last)] == ["run.suspended", "interrupt.answered", "run.cancelled"]


def test_publishing_twice_publishes_once(at_home):
    an_endpoint(at_home.url, READY)
    an_answered_wait()
    publish()
    publish()
    assert Delivery.objects.count() == 1


def test_a_continuation_is_published_after_its_undo_window(at_home):
    builders.a_policy(undo=timedelta(seconds=30))
    an_endpoint(at_home.url, READY)
    an_answered_wait()
    Continuation.objects.update(not_before=clock.now() + timedelta(seconds=30))
    publish()
    assert not deliveries.anything_to_deliver()
    make_everything_due()
    send()
    assert len(at_home.got) == 1


@pytest.mark.parametrize("how", ["claimed", "paused", "cancelled"])
def test_a_continuation_that_is_no_longer_ready_is_not_published(at_home, how):
    an_endpoint(at_home.url, READY)
    interrupt = an_answered_wait()
    publish()
    run_id = interrupt.run.public_id
    if how == "claimed":
        builders.claim(interrupt.run.agent)
    elif how == "paused":
        control_run.pause_run(run_id=run_id, actor="person:ana", reason="", check=lambda run: None)
    else:
        control_run.cancel_run(run_id=run_id, actor="person:ana", reason="", check=lambda run: None)
    send()
    assert at_home.got == []
    delivery = Delivery.objects.get()
    assert (delivery.status, delivery.attempt) == (DeliveryStatus.VOID, 0)
    assert "no longer ready" in delivery.trouble


def test_a_paused_continuation_is_published_after_the_pause(at_home):
    an_endpoint(at_home.url, READY)
    interrupt = an_answered_wait()
    run_id = interrupt.run.public_id
    control_run.pause_run(run_id=run_id, actor="person:ana", reason="", check=lambda run: None)
    publish_and_send()
    control_run.resume_run(run_id=run_id, actor="person:ana", reason="", check=lambda run: None)
    builders.check(Continuation.objects.get().public_id)
    publish_and_send()
    assert [json.loads(got.body)["type"] for got in at_home.got] == [READY]


# --- signatures -----------------------------------------------------------------------------------------------------------


@pytest.mark.proves(10)
def test_a_retry_has_the_same_id_and_body_and_a_new_time(at_home, monkeypatch):
    made = an_endpoint(at_home.url, READY)
    at_home.will("broken", 200)
    an_answered_wait()
    publish_and_send()
    real = clock.now
    monkeypatch.setattr(clock, "now", lambda: real() + timedelta(seconds=90))
    send()
    first, second = at_home.got
    assert first.headers["webhook-id"] == second.headers["webhook-id"] == Delivery.objects.get().public_id
    assert first.body == second.body
    assert int(second.headers["webhook-timestamp"]) >= int(first.headers["webhook-timestamp"]) + 90
    first.verified_by(made.secret)
    second.verified_by(made.secret)


def test_a_replay_or_a_changed_body_is_found_by_the_verifier(at_home):
    """C182: the signature covers id, time and body."""
    made = an_endpoint(at_home.url, READY)
    an_answered_wait()
    publish_and_send()
    [got] = at_home.got
    verifier = Webhook(made.secret)
    old = str(int(got.headers["webhook-timestamp"]) - 600)
    for changed in ({"webhook-timestamp": old}, {"webhook-id": "dlv_other"}, {"webhook-signature": "v1,AAAA"}):
        with pytest.raises(WebhookVerificationError):
            verifier.verify(got.body, {**got.headers, **changed})
    with pytest.raises(WebhookVerificationError):
        verifier.verify(got.body.replace(b"run_", b"ran_"), got.headers)
    without_time = {name: value for name, value in got.headers.items() if name != "webhook-timestamp"}
    with pytest.raises(WebhookVerificationError):
        verifier.verify(got.body, without_time)


@pytest.mark.proves(10)
def test_after_a_rotation_both_secrets_verify_until_the_old_one_ends(at_home):
    made = an_endpoint(at_home.url, READY)
    rotated = endpoints.rotate_secret(agent=builders.an_agent(), endpoint_id=made.endpoint.public_id)
    assert rotated.secret != made.secret
    an_answered_wait()
    publish_and_send()
    [got] = at_home.got
    assert len(got.headers["webhook-signature"].split(" ")) == 2
    got.verified_by(made.secret)
    got.verified_by(rotated.secret)
    WebhookSecret.objects.exclude(ends_at=None).update(ends_at=clock.now())
    an_answered_wait()
    publish_and_send()
    late = at_home.got[-1]
    late.verified_by(rotated.secret)
    with pytest.raises(WebhookVerificationError):
        late.verified_by(made.secret)


def test_rotating_again_cuts_no_older_secret_short(at_home):
    """The reply of a rotation may be lost: the receiver still has the secret from before it."""
    made = an_endpoint(at_home.url, READY)
    for _ in range(endpoints.MAX_SECRETS - 1):
        endpoints.rotate_secret(agent=builders.an_agent(), endpoint_id=made.endpoint.public_id)
    an_answered_wait()
    publish_and_send()
    at_home.got[0].verified_by(made.secret)
    with pytest.raises(RateLimited):
        endpoints.rotate_secret(agent=builders.an_agent(), endpoint_id=made.endpoint.public_id)


def test_a_secret_is_not_kept_as_it_is(at_home):
    made = an_endpoint(at_home.url)
    kept = WebhookSecret.objects.get().sealed
    assert made.secret.startswith("whsec_")
    assert made.secret not in kept
    assert made.secret.removeprefix("whsec_") not in kept


def test_a_secret_outlives_a_change_of_the_secret_key(at_home, settings):
    made = an_endpoint(at_home.url, READY)
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "another-key-of-fifty-characters-another-key-of-fifty"
    an_answered_wait()
    publish_and_send()
    at_home.got[0].verified_by(made.secret)


def test_an_undecryptable_secret_is_reported_and_nothing_is_sent_unsigned(at_home, settings):
    an_endpoint(at_home.url, READY)
    settings.SECRET_KEY = "another-key-of-fifty-characters-another-key-of-fifty"
    with pytest.raises(signing.SecretUnreadable):
        signing.unseal(WebhookSecret.objects.get().sealed)
    an_answered_wait()
    publish_and_send()
    assert at_home.got == []
    assert "Rotate the secret" in Delivery.objects.get().trouble


# --- endpoints ------------------------------------------------------------------------------------------------------------


def test_the_same_key_registers_once_and_does_not_show_the_secret_again(at_home):
    first = an_endpoint(at_home.url, key="hooks")
    again = an_endpoint(at_home.url, key="hooks")
    assert (again.endpoint.pk, again.secret, again.created) == (first.endpoint.pk, None, False)
    with pytest.raises(KeyReused):
        an_endpoint(at_home.url, key="hooks", body_digest="rq1:other")


@pytest.mark.parametrize("url", ["http://169.254.169.254/latest", "https://10.0.0.7/x", "http://8.8.8.8/x", "ftp://x"])
def test_an_address_that_is_not_called_is_not_registered(url, monkeypatch):
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, port, **_: [(2, 1, 6, "", (host, port))])
    with pytest.raises(PayloadInvalid, match="/url"):
        an_endpoint(url)
    assert not WebhookEndpoint.objects.exists()


def test_an_unknown_type_is_not_registered(at_home):
    with pytest.raises(PayloadInvalid, match="/events/1"):
        an_endpoint(at_home.url, READY, "run.exploded")


def test_an_agent_has_ten_endpoints_at_the_most(at_home):
    for _ in range(endpoints.MAX_ENDPOINTS):
        an_endpoint(at_home.url)
    with pytest.raises(PayloadInvalid, match="exceeds the limit"):
        an_endpoint(at_home.url)


def test_a_deleted_endpoint_is_not_called(at_home):
    """C185: also not by what was on its way."""
    made = an_endpoint(at_home.url, READY)
    an_answered_wait()
    publish()
    endpoints.delete_endpoint(agent=builders.an_agent(), endpoint_id=made.endpoint.public_id)
    make_everything_due()
    send()
    an_answered_wait()
    publish_and_send()
    assert at_home.got == []
    assert [delivery.status for delivery in Delivery.objects.all()] == [DeliveryStatus.VOID]


def test_a_message_written_while_its_endpoint_was_deleted_is_void(at_home):
    made = an_endpoint(at_home.url, READY)
    an_answered_wait()
    publish()
    WebhookEndpoint.objects.update(deleted_at=clock.now())  # as if the announcer had read it just before
    send()
    assert at_home.got == []
    assert made.endpoint.deliveries.get().status == DeliveryStatus.VOID


def test_another_agents_endpoint_looks_like_a_missing_one(at_home):
    made = an_endpoint(at_home.url)
    other = builders.an_agent("invoices")
    for verb in (endpoints.delete_endpoint, endpoints.rotate_secret):
        with pytest.raises(NotFound):
            verb(agent=other, endpoint_id=made.endpoint.public_id)


# --- attempts -------------------------------------------------------------------------------------------------------------


@pytest.mark.proves(10)
def test_an_attempt_is_counted_before_the_call(at_home):
    an_endpoint(at_home.url, READY)
    an_answered_wait()
    publish()
    [due] = deliveries.due_messages(limit=1)
    assert deliveries.begin_attempt(due) is not None  # and here the worker dies
    delivery = Delivery.objects.get()
    assert (delivery.status, delivery.attempt) == (DeliveryStatus.DUE, 1)
    assert deliveries.begin_attempt(due) is None, "another worker leaves it alone while it may be under way"
    assert delivery.next_at >= clock.now() + timedelta(seconds=30)
    make_everything_due()
    send()
    assert Delivery.objects.get().status == DeliveryStatus.DELIVERED
    assert [attempt.ended_at is None for attempt in DeliveryAttempt.objects.order_by("number")] == [True, False]


@pytest.mark.proves(10, 21)
def test_a_worker_that_dies_in_every_attempt_leaves_a_dead_letter(at_home):
    an_endpoint(at_home.url, READY)
    an_answered_wait()
    publish()
    for _ in range(deliveries.MAX_ATTEMPTS):
        [due] = deliveries.due_messages(limit=1)
        assert deliveries.begin_attempt(due) is not None
        make_everything_due()
    send()
    delivery = Delivery.objects.get()
    assert (delivery.status, delivery.attempt) == (DeliveryStatus.DEAD, deliveries.MAX_ATTEMPTS)
    assert "outcome of the last attempt is unknown" in delivery.trouble


def test_a_late_success_counts_and_a_late_failure_does_not(at_home):
    an_endpoint(at_home.url, READY)
    an_answered_wait()
    publish()
    letters = []
    for _ in range(2):
        [due] = deliveries.due_messages(limit=1)
        letters.append(deliveries.begin_attempt(due))
        make_everything_due()
    before = Delivery.objects.get().next_at
    deliveries.close_attempt(letters[0], deliveries.AttemptResult(status=500, trouble="The reply has the status 500."))
    assert Delivery.objects.get().next_at == before
    deliveries.close_attempt(letters[0], deliveries.AttemptResult(status=200))
    assert Delivery.objects.get().status == DeliveryStatus.DELIVERED


@pytest.mark.proves(21)
def test_a_dead_letter_can_be_sent_once_more(at_home):
    agent = builders.an_agent()
    an_endpoint(at_home.url, "interrupt.answered")
    at_home.will(410, 200)
    an_answered_wait()
    publish_and_send()
    delivery = Delivery.objects.get()
    assert delivery.status == DeliveryStatus.DEAD
    deliveries.resend_message(agent=agent, delivery_id=delivery.public_id, by="agent:purchase-requests")
    send()
    delivery.refresh_from_db()
    assert (delivery.status, delivery.attempt, delivery.tries) == (DeliveryStatus.DELIVERED, 2, 1)
    assert len({got.headers["webhook-id"] for got in at_home.got}) == 1
    assert WebhookEndpoint.objects.get().disabled_at is None


def test_what_cannot_be_sent_once_more_is_refused(at_home):
    made = an_endpoint(at_home.url, READY)
    interrupt = an_answered_wait()
    publish_and_send()
    agent, delivery = interrupt.run.agent, Delivery.objects.get()
    builders.claim(agent)
    with pytest.raises(NotReady):
        deliveries.resend_message(agent=agent, delivery_id=delivery.public_id, by="")
    with pytest.raises(NotFound):
        deliveries.resend_message(agent=builders.an_agent("invoices"), delivery_id=delivery.public_id, by="")
    endpoints.delete_endpoint(agent=agent, endpoint_id=made.endpoint.public_id)
    with pytest.raises(NotFound):
        deliveries.resend_message(agent=agent, delivery_id=delivery.public_id, by="")


@pytest.mark.proves(21)
def test_what_waited_too_long_behind_a_dead_endpoint_is_a_dead_letter(at_home):
    an_endpoint(at_home.url, "run.started")
    builders.a_running_run()
    publish()
    Delivery.objects.update(give_up_at=clock.now())
    assert deliveries.give_up_overdue(limit=10) == 1
    delivery = Delivery.objects.get()
    assert (delivery.status, delivery.attempt) == (DeliveryStatus.DEAD, 0)
    assert delivery.trouble


@pytest.mark.proves(21)
def test_the_log_forgets_what_is_done_for_long_and_keeps_dead_letters(at_home):
    an_endpoint(at_home.url, "run.started")
    for _ in range(3):
        builders.a_running_run()
    publish_and_send()
    first, second, third = Delivery.objects.order_by("pk")
    long_ago = clock.now() - deliveries.KEEP_DELIVERIES
    Delivery.objects.filter(pk=first.pk).update(ended_at=long_ago)
    Delivery.objects.filter(pk=second.pk).update(ended_at=long_ago, status=DeliveryStatus.DEAD)
    assert deliveries.delete_old_deliveries(limit=10) == 1
    assert set(Delivery.objects.all()) == {second, third}
    assert DeliveryAttempt.objects.count() == 2
    assert Event.objects.count() == 3, "the timeline forgets nothing"


def test_only_one_file_writes_the_status_of_a_delivery():
    writers = {
        source.name
        for source in (SOURCES / "reviewqueue").rglob("*.py")
        if not {"migrations", "notifications"} & set(source.parts)
        and re.search(r"status=(to|DeliveryStatus\.\w+)[,)]", source.read_text())
    }
    assert writers == {"deliveries.py", "models.py"}, "and the model's indexes only name one"
    assert set(DELIVERY_MOVES) == {"postpone", "deliver", "give up", "void", "order again"}


# --- docs -----------------------------------------------------------------------------------------------------------------

DOCS = SOURCES / "docs" / "webhooks.md"


def test_the_docs_describe_every_type_as_the_code_does():
    table = DOCS.read_text().partition("## Types")[2]
    assert dict(re.findall(r"^\| `([a-z_.]+)` \| (.+) \|$", table, re.MULTILINE)) == TYPES


def test_the_verifier_of_the_docs_takes_what_we_send_and_nothing_else(at_home):
    made = an_endpoint(at_home.url, READY)
    an_answered_wait()
    publish_and_send()
    [got] = at_home.got
    [block] = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)
    told = {}
    exec(block, told)  # noqa: S102  our own docs
    assert told["is_genuine"](made.secret, got.headers, got.body)
    assert not told["is_genuine"](made.secret, got.headers, got.body + b" ")
    assert not told["is_genuine"](signing.new_secret(), got.headers, got.body)
    old = {**got.headers, "webhook-timestamp": str(int(got.headers["webhook-timestamp"]) - 301)}
    assert not told["is_genuine"](made.secret, old, got.body)
