"""Notifications by mail: who gets one about which event, what it contains, and when it is sent."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from types import SimpleNamespace

import pytest
from django.contrib.auth.models import User
from django.core import mail
from django.db import connection
from django.test.utils import CaptureQueriesContext

from ledger import clock
from reviewqueue import permissions, reviewer_actions, tasks
from reviewqueue.models import (
    MESSAGE_MOVES,
    MessageStatus,
    Notification,
    NotificationCursor,
    NotificationMessage,
    QueueNotificationPreference,
)
from reviewqueue.notifications import derivation, messages, preferences
from reviewqueue.notifications.content import neutral_title
from reviewqueue.notifications.kinds import KIND_OF_EVENT, NotificationKind
from reviewqueue.operations import kill_switch
from reviewqueue.webhooks import outbox
from reviewqueue.webhooks.event_types import TYPES
from reviewqueue.webhooks.models import Delivery, DeliveryStatus, WebhookEndpoint
from runs.models import Event, Feed, Interrupt
from runs.use_cases import amend_interrupt, expire
from tests import builders
from tests.notifications.notification_builders import (
    derive,
    derive_and_send,
    make_everything_due,
    prefer,
    recipients,
    send,
)

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)


@pytest.fixture
def ana() -> User:
    return builders.a_reviewer("ana@example.org")


def kinds() -> list[str]:
    return list(Notification.objects.order_by("pk").values_list("kind", flat=True))


# --- events and recipients ------------------------------------------------------------------------------------------------


def test_every_event_that_notifies_is_an_event_type():
    assert set(KIND_OF_EVENT) <= set(TYPES)


def test_a_new_request_notifies_the_people_who_can_decide_it(ana):
    builders.a_person("lea@example.org", "engineering-leads")
    builders.a_person("aud@example.org", "engineering-auditors")
    builders.a_reviewer("tom@example.org", "purchasing")
    builders.a_person("off@example.org", "engineering-reviewers").is_active = False
    User.objects.filter(username="off@example.org").update(is_active=False)
    interrupt = builders.a_waiting_interrupt()
    sent = derive_and_send()
    assert recipients(sent) == ["ana@example.org", "lea@example.org"]
    assert f"https://review.example.org/interrupts/{interrupt.public_id}" in sent[0].body
    assert sent[0].subject == "New request in engineering: “Order the hoist”"


def test_the_person_who_started_the_run_gets_no_request_to_review(ana):
    builders.a_waiting_interrupt(started=builders.a_running_run(initiator=ana))
    assert derive_and_send() == []


def test_an_assigned_request_notifies_only_its_assignees(ana):
    builders.a_reviewer("ben@example.org")
    builders.a_waiting_interrupt(builders.a_wait(assignees=["ana@example.org"]))
    [sent] = derive_and_send()
    assert (sent.to, sent.subject) == (
        ["ana@example.org"],
        "Request assigned to you in engineering: “Order the hoist”",
    )


def test_a_lead_who_assigns_a_request_notifies_its_new_assignees_but_not_the_lead(ana):
    lead = builders.a_person("lea@example.org", "engineering-leads")
    interrupt = builders.a_waiting_interrupt()
    derive_and_send()
    reviewer_actions.assign_request(responder=lead, interrupt_id=interrupt.public_id, people=[ana, lead])
    assert recipients(derive_and_send()) == ["ana@example.org"]


@pytest.mark.parametrize(
    "written",
    [
        "@ben can you look?",
        "Please, @ben@example.org.",
        "(@Ben)",
        "Ask @ben.",
        "Or @ben...",
        "@ben- look",
        "@ben@example.org- look",
        "@ben@ look",
    ],
)
def test_a_mention_notifies_the_person_if_the_request_is_visible(ana, written):
    builders.a_reviewer("ben@example.org")
    builders.a_person("zoe@example.org")
    interrupt = builders.a_waiting_interrupt()
    derive_and_send()
    text = f"{written} @zoe @zoe@example.org @none mail@ben"
    reviewer_actions.add_comment(responder=ana, interrupt_id=interrupt.public_id, text=text)
    [sent] = derive_and_send()
    assert (sent.to, sent.subject[:23]) == (["ben@example.org"], "You were mentioned in e")
    assert "zoe" not in sent.body


def test_an_ambiguous_mention_notifies_no_person(ana):
    builders.a_reviewer("ben@example.org")
    builders.a_reviewer("ben@example.com")
    interrupt = builders.a_waiting_interrupt()
    derive_and_send()
    reviewer_actions.add_comment(responder=ana, interrupt_id=interrupt.public_id, text="@ben?")
    assert derive_and_send() == []


def test_a_reminder_an_escalation_and_an_expiry_notify_once_per_level(ana):
    builders.a_queue("board")
    builders.a_reviewer("bea@example.org", "board")
    builders.a_policy(
        on_expiry="escalate",
        remind_before=[3600],
        escalate_to=builders.a_queue("board"),
        escalate_wait=HOUR,
        then="cancel",
        any_queue=True,
    )
    initiator = builders.a_person("tom@example.org")
    started = builders.a_running_run(initiator=initiator)
    wait = builders.a_waiting_interrupt(started=started)
    derive_and_send()
    Interrupt.objects.filter(pk=wait.pk).update(remind_at=clock.now())
    expire.send_due_reminders(limit=9)
    [reminded] = derive_and_send()
    assert reminded.subject.startswith("Deadline near in engineering")
    builders.move_deadline(wait, clock.now())
    expire.expire_due_interrupts(limit=9)
    [escalated] = derive_and_send()
    assert (escalated.to, escalated.subject[:26]) == (["bea@example.org"], "Request escalated to board")
    builders.move_deadline(wait, clock.now())
    expire.expire_due_interrupts(limit=9)
    assert recipients(derive_and_send()) == ["bea@example.org", "tom@example.org"]
    assert kinds() == ["requested", "reminded", "escalated", "expired", "expired"]


def test_a_changed_request_notifies_its_reviewers(ana):
    wait = builders.a_waiting_interrupt()
    derive_and_send()
    amendment = amend_interrupt.Amendment(title="Order two hoists")
    amend_interrupt.amend_open_interrupt(agent=wait.agent, interrupt_id=wait.public_id, amendment=amendment)
    [sent] = derive_and_send()
    assert sent.subject.startswith("Request changed by its agent in engineering: “Order two hoists”")


def test_an_undone_decision_notifies_the_others(ana):
    builders.a_policy(undo=HOUR)
    ben = builders.a_reviewer("ben@example.org")
    wait = builders.a_waiting_interrupt()
    derive_and_send()
    builders.decide(wait, ben, door="page")
    reviewer_actions.undo_decision(responder=ben, interrupt_id=wait.public_id)
    [sent] = derive_and_send()
    assert (sent.to, sent.subject[:31]) == (["ana@example.org"], "Request open again in engineeri")


def test_an_unknown_outcome_and_a_hold_notify_the_owners(ana):
    owner = builders.a_person("own@example.org", "agent-owners")
    started = builders.a_running_run()
    builders.begin_effect(
        agent=started.run.agent,
        run_id=started.run.public_id,
        token=started.lease.token,
        key="order",
        name="note",
        arguments={},
        still_may_decide=permissions.still_may_decide,
    )
    builders.end_lease_now(started.run, clock.now())
    expire.release_lapsed_leases(limit=9)
    [sent] = derive_and_send()
    assert (sent.to, sent.subject) == ([owner.email], "Unknown outcome of agent purchase-requests: “A purchase”")
    assert f"/runs/{started.run.public_id}" in sent.body


def test_a_halt_notifies_owners_and_operators_but_not_its_author(ana):
    builders.a_person("own@example.org", "agent-owners")
    operator = builders.a_person("ops@example.org", "operators")
    builders.a_person("two@example.org", "operators")
    builders.an_agent()
    kill_switch.halt(operator, slug="purchase-requests", reason="<script>")
    assert recipients(derive_and_send()) == ["own@example.org", "two@example.org"]
    assert derive_and_send() == []


def test_webhook_messages_that_were_given_up_notify_the_owners_once_an_hour(ana):
    builders.a_person("own@example.org", "agent-owners")
    wait, now = builders.a_waiting_interrupt(), clock.now()
    derive_and_send()
    endpoint = WebhookEndpoint.objects.create(
        public_id="end_1", agent=wait.agent, key="k", url="https://desk.example/", events=[], created_at=now
    )
    ended = {"status": DeliveryStatus.DEAD, "give_up_at": now, "ended_at": now, "created_at": now, "body": "{}"}
    for place, event in enumerate(Event.objects.order_by("pk")[:2]):
        Delivery.objects.create(public_id=f"dlv_{place}", endpoint=endpoint, event=event, type=event.type, **ended)
    [sent] = derive_and_send()
    assert "2 messages were given up." in sent.body
    assert derive_and_send() == []


@pytest.mark.parametrize("is_composed", [False, True])
def test_the_number_of_messages_given_up_is_the_one_at_the_last_read_before_the_mail(ana, is_composed):
    owner = builders.a_person("own@example.org", "agent-owners")
    wait, now = builders.a_waiting_interrupt(), clock.now()
    derive_and_send()
    if not is_composed:
        prefer(owner, frequency="daily")
    endpoint = WebhookEndpoint.objects.create(
        public_id="end_1", agent=wait.agent, key="k", url="https://desk.example/", events=[], created_at=now
    )
    ended = {"status": DeliveryStatus.DEAD, "give_up_at": now, "ended_at": now, "created_at": now, "body": "{}"}
    first, second = Event.objects.order_by("pk")[:2]
    Delivery.objects.create(public_id="dlv_1", endpoint=endpoint, event=first, type=first.type, **ended)
    derive()
    Delivery.objects.create(public_id="dlv_2", endpoint=endpoint, event=second, type=second.type, **ended)
    derive()
    assert Notification.objects.get(kind="undelivered").details == {"messages": 2}
    make_everything_due()
    [sent] = derive_and_send()
    assert "2 messages were given up." in sent.body
    Delivery.objects.filter(public_id="dlv_1").update(status=DeliveryStatus.DUE)
    derive()
    assert Notification.objects.get(kind="undelivered").details == {"messages": 2}, "the mail is sent"


# --- permissions --------------------------------------------------------------------------------------------------------


def test_nothing_is_sent_to_a_person_who_lost_the_permission_meanwhile(ana):
    builders.a_waiting_interrupt()
    derive()
    ana.groups.clear()
    send()
    assert mail.outbox == []
    assert NotificationMessage.objects.get().status == MessageStatus.VOID


def test_nothing_is_sent_about_a_request_that_was_decided_meanwhile(ana):
    wait = builders.a_waiting_interrupt()
    derive()
    builders.decide(wait, ana)
    send()
    assert mail.outbox == []


def test_nothing_is_sent_to_a_disabled_person(ana):
    builders.a_waiting_interrupt()
    derive()
    User.objects.update(is_active=False)
    send()
    assert mail.outbox == []


# --- content ------------------------------------------------------------------------------------------------------------


def test_a_mail_has_two_forms_a_message_id_and_no_text_of_the_agent_but_its_title(ana):
    title = "Pay <b>now</b> \u202ehttps://evil.example/x " + "y" * 300
    wait = builders.a_waiting_interrupt(builders.a_wait(title=title[:300], message="SECRET MESSAGE"))
    [sent] = derive_and_send()
    html = sent.alternatives[0].content
    message = sent.message()
    for text in (sent.subject, sent.body, html):
        assert "evil.example" not in text
        assert "https://evil" not in text
        assert "SECRET" not in text
        assert "\u202e" not in text
        assert "y" * 130 not in text
    assert "<b>" not in html
    assert message["Message-ID"] == f"<{NotificationMessage.objects.get().public_id}@review.example.org>"
    assert message["References"] == f"<{wait.public_id}@review.example.org>"
    assert message["Auto-Submitted"] == "auto-generated"
    assert "\n" not in sent.subject


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Pay 184000.00 EUR", "Pay 184000.00 EUR"),
        ("see www.evil.example", "see www. evil. example"),
        ("http://evil.example/a", "http: / / evil. example/ a"),
        ("a@evil.example", "a@ evil. example"),
        ("line\nbreak", "line[line end]break"),
    ],
)
def test_a_title_becomes_no_link(text, shown):
    assert neutral_title(text) == shown


def test_every_link_of_a_mail_opens_a_page_of_this_installation_and_changes_nothing(ana, client):
    builders.a_waiting_interrupt()
    [sent] = derive_and_send()
    links = [word for word in sent.body.split() if "://" in word]
    assert links
    client.force_login(ana)
    before = Event.objects.count()
    for link in links:
        assert link.startswith("https://review.example.org/")
        assert client.get(link.removeprefix("https://review.example.org")).status_code == 200
    assert Event.objects.count() == before


def test_the_deadline_is_in_the_zone_of_the_recipient(ana):
    prefer(ana, time_zone="Asia/Tokyo")
    builders.a_waiting_interrupt()
    [sent] = derive_and_send()
    assert " JST, in " in sent.body


# --- preferences --------------------------------------------------------------------------------------------------------


def test_a_person_can_mute_mail_and_kinds(ana):
    ben = builders.a_reviewer("ben@example.org")
    builders.a_reviewer("cem@example.org")
    prefer(ana, by_mail=False)
    prefer(ben, muted=[NotificationKind.REQUESTED])
    builders.a_waiting_interrupt()
    assert recipients(derive_and_send()) == ["cem@example.org"]


@pytest.mark.parametrize(("min_risk", "number"), [("low", 1), ("medium", 1), ("high", 0), ("none", 0)])
def test_a_person_can_choose_the_risk_per_queue(ana, min_risk, number):
    QueueNotificationPreference.objects.create(person=ana, queue=builders.a_queue(), min_risk=min_risk)
    builders.a_waiting_interrupt(builders.a_wait(wish={"risk": "medium"}))
    assert len(derive_and_send()) == number


def test_the_preference_of_a_queue_does_not_hide_an_assigned_request(ana):
    QueueNotificationPreference.objects.create(person=ana, queue=builders.a_queue(), min_risk="none")
    builders.a_waiting_interrupt(builders.a_wait(assignees=["ana@example.org"]))
    assert len(derive_and_send()) == 1


def test_a_digest_is_one_mail_about_everything_that_is_still_open(ana):
    prefer(ana, frequency="hourly")
    waits = [builders.a_waiting_interrupt() for _ in range(4)]
    assert derive_and_send() == []
    builders.decide(waits[0], ana)
    make_everything_due()
    [sent] = derive_and_send()
    assert sent.subject == "Review queue: 3 notifications"
    assert [wait.public_id in sent.body for wait in waits] == [False, True, True, True]
    assert sent.alternatives[0].content.count("Open the page") == 3


def test_a_large_digest_is_bounded_and_says_what_is_missing(ana, monkeypatch):
    monkeypatch.setattr("reviewqueue.notifications.content.MAX_IN_DIGEST", 2)
    prefer(ana, frequency="daily")
    for _ in range(3):
        builders.a_waiting_interrupt()
    derive()
    make_everything_due()
    [sent] = derive_and_send()
    assert "And 1 more: https://review.example.org" in sent.body


def test_a_huge_digest_is_composed_and_rendered_without_reading_all_of_it(ana, monkeypatch):
    monkeypatch.setattr("reviewqueue.notifications.messages.COMPOSE_SIZE", 2)
    monkeypatch.setattr("reviewqueue.notifications.content.MAX_READ", 3)
    monkeypatch.setattr("reviewqueue.notifications.content.MAX_IN_DIGEST", 2)
    prefer(ana, frequency="daily")
    waits = [builders.a_waiting_interrupt() for _ in range(9)]
    derive()
    for wait in waits[:4]:
        builders.decide(wait, ana)
    make_everything_due()
    with CaptureQueriesContext(connection) as queries:
        [sent] = derive_and_send()
    read = [query["sql"] for query in queries if query["sql"].startswith('SELECT "reviewqueue_notification"."id"')]
    assert [sql for sql in read if "LIMIT" not in sql] == []
    assert [wait.public_id in sent.body for wait in waits] == [False] * 4 + [True] * 2 + [False] * 3
    assert "And 3 more: https://review.example.org" in sent.body
    assert NotificationMessage.objects.get().notifications.count() == 9


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("values", "now", "expected", "in_digest"),
    [
        ({}, "2026-11-30T10:00", "2026-11-30T10:00", False),
        ({"frequency": "hourly"}, "2026-11-30T10:20", "2026-11-30T11:00", True),
        ({"frequency": "daily"}, "2026-11-30T10:20", "2026-12-01T08:00", True),
        ({"frequency": "daily", "time_zone": "Asia/Tokyo"}, "2026-11-30T10:20", "2026-11-30T23:00", True),
        ({"quiet_from": time(20), "quiet_until": time(7)}, "2026-11-30T19:59", "2026-11-30T19:59", False),
        ({"quiet_from": time(20), "quiet_until": time(7)}, "2026-11-30T20:00", "2026-12-01T07:00", True),
        ({"quiet_from": time(20), "quiet_until": time(7)}, "2026-12-01T06:59", "2026-12-01T07:00", True),
        ({"quiet_from": time(20), "quiet_until": time(7)}, "2026-12-01T07:00", "2026-12-01T07:00", False),
        ({"quiet_from": time(12), "quiet_until": time(13)}, "2026-11-30T12:30", "2026-11-30T13:00", True),
        ({"quiet_from": time(9), "quiet_until": time(9)}, "2026-11-30T09:00", "2026-11-30T09:00", False),
        # Clocks in Berlin skip 02:30 on 29 March 2026.
        (
            {"frequency": "daily", "daily_at": time(2, 30), "time_zone": "Europe/Berlin"},
            "2026-03-28T12:00",
            "2026-03-29T01:30",
            True,
        ),
        (
            {"frequency": "daily", "daily_at": time(6), "quiet_from": time(22), "quiet_until": time(9)},
            "2026-11-30T10:00",
            "2026-12-01T09:00",
            True,
        ),
    ],
)
def test_when_a_notification_is_sent(ana, values, now, expected, in_digest):
    timing = preferences.timing_of(prefer(ana, **values), now=at(now))
    assert (timing.compose_at, timing.in_digest) == (at(expected), in_digest)


# --- derivation ---------------------------------------------------------------------------------------------------------


def test_an_event_that_is_derived_again_notifies_each_person_once(ana):
    builders.a_waiting_interrupt()
    derive()
    NotificationCursor.objects.update(last_seq=0)
    derive()
    assert Notification.objects.count() == 1


def test_without_a_mail_server_nothing_is_stored_and_nothing_is_sent_later(ana, settings):
    settings.EMAIL_HOST = ""
    builders.a_waiting_interrupt()
    assert derive_and_send() == []
    settings.EMAIL_HOST = "mail.example.org"
    assert derive_and_send() == []
    assert not derivation.any_event_to_read()


def test_a_gap_in_the_feed_after_a_restored_backup_stops_nothing(ana):
    builders.a_waiting_interrupt()
    derive()
    Feed.objects.update(last_seq=1_000_000)
    derive()
    assert not derivation.any_event_to_read()
    builders.a_waiting_interrupt()
    assert len(derive_and_send()) == 2


def test_an_agent_whose_events_fail_delays_no_other(ana, monkeypatch):
    builders.a_waiting_interrupt(started=builders.a_running_run(builders.an_agent("broken")))
    builders.a_waiting_interrupt()
    real = derivation.notices_of

    def sometimes(event):
        if event.run.agent.slug == "broken":
            raise ValueError("a fault")
        return real(event)

    monkeypatch.setattr(derivation, "notices_of", sometimes)
    assert len(derive_and_send()) == 1


def test_an_event_with_many_recipients_takes_several_transactions(ana, monkeypatch):
    for name in ("ben", "cem"):
        builders.a_reviewer(f"{name}@example.org")
    prefer(User.objects.get(username="cem@example.org"), by_mail=False)
    waits = [builders.a_wait(f"order-{place}") for place in range(3)]
    run = builders.a_running_run()
    builders.suspend_run(run, *waits)
    outbox.publish_events(seconds=60)
    monkeypatch.setattr(derivation, "MAX_ROWS", 3)
    [agent_id] = Feed.objects.values_list("pk", flat=True)
    assert derivation.derive_batch(agent_id=agent_id) == 4, "it ends after the notice that reaches the limit"
    assert derivation.any_event_to_read()
    assert derivation.derive_batch(agent_id=agent_id) == 2
    assert not derivation.any_event_to_read()
    assert Notification.objects.count() == 6


def test_a_batch_after_its_time_ends_after_one_event(ana):
    prefer(ana, by_mail=False)
    for _ in range(2):
        builders.a_waiting_interrupt()
    outbox.publish_events(seconds=60)
    [agent_id] = Feed.objects.values_list("pk", flat=True)
    first, second = Event.objects.filter(type="run.suspended").order_by("announced_seq")
    derivation.derive_batch(agent_id=agent_id, until=0)
    assert first.announced_seq <= NotificationCursor.objects.get().last_seq < second.announced_seq


def test_the_time_of_a_derivation_is_checked_per_agent(ana, monkeypatch):
    for slug in ("one", "two", "three"):
        builders.a_waiting_interrupt(started=builders.a_running_run(builders.an_agent(slug)))
    outbox.publish_events(seconds=60)
    now, derived = [0.0], []

    def slow(*, agent_id, **_):
        now[0] += 8
        derived.append(agent_id)
        return 1

    monkeypatch.setattr(derivation, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(derivation, "derive_batch", slow)
    derivation.derive_notifications(seconds=10)
    assert len(derived) == 2


def test_a_derivation_that_is_killed_delays_no_message_that_is_due(ana, monkeypatch):
    builders.a_waiting_interrupt()
    outbox.publish_events(seconds=60)
    derivation.derive_notifications(seconds=60)

    def killed(*, seconds):
        raise SystemExit

    monkeypatch.setattr(derivation, "derive_notifications", killed)
    with pytest.raises(SystemExit):
        tasks.notify()
    assert NotificationMessage.objects.count() == 1


# --- statuses -----------------------------------------------------------------------------------------------------------


def test_every_transition_names_statuses():
    assert {status for before, _ in MESSAGE_MOVES.values() for status in before} <= set(MessageStatus)


def test_old_messages_are_deleted_and_dead_letters_stay(ana):
    builders.a_waiting_interrupt()
    builders.a_waiting_interrupt()
    derive_and_send()
    first = NotificationMessage.objects.earliest("pk")
    NotificationMessage.objects.update(ended_at=clock.now() - messages.KEEP_MESSAGES)
    NotificationMessage.objects.filter(pk=first.pk).update(status=MessageStatus.DEAD)
    assert messages.delete_old_messages(limit=9) == 1
    assert NotificationMessage.objects.get() == first
