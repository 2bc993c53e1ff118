"""The doctor reports a sound installation as sound, and finds each fault that a test introduces."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.core.management import CommandError, call_command
from django.db import DatabaseError, transaction
from django_q.models import OrmQ

from ledger import clock
from ledger.digests import digest
from ledger.models import Effect
from reviewqueue.models import Heartbeat, NotificationMessage, NotificationService
from reviewqueue.operations import doctor, health
from reviewqueue.operations.doctor import checkpoint_files, configuration, history_integrity, row_consistency, workers
from reviewqueue.operations.provisioning.queues import add_chat_channel
from runs import file_storage
from runs.event_feed import number_events
from runs.holds import open_hold
from runs.kill_switch import halt_agents
from runs.locks import locked_runs
from runs.models import CheckpointFile, Continuation, EffectRule, Event, HandBack, Interrupt, Permit, Run
from runs.run_status import save_status
from runs.states import HoldKind
from runs.timeline import find_broken_event
from runs.use_cases import expire, transfer_file
from runs.use_cases.complete_run import complete_run
from runs.use_cases.hold_after_restore import hold_after_restore
from tests import builders
from tests.ledger.effect_builders import an_effect
from tests.runs.leased_run_builders import a_leased_run, a_permit, a_rule, begin, report
from tests.unguarded import without_triggers

pytestmark = pytest.mark.django_db

DAYS_AGO = timedelta(days=3)


@pytest.fixture(autouse=True)
def a_sound_installation(settings) -> None:
    """A recent heartbeat, a mail server, an empty task queue."""
    settings.EMAIL_HOST = "mail.example.org"
    Heartbeat.objects.create(worker="one:1", beaten_at=clock.now())
    builders.a_reviewer()
    OrmQ.objects.all().delete()


def found(**wanted: Any) -> list[str]:
    """What is wrong, as "check: message"."""
    return [f"{it.check}: {it.message}" for it in doctor.run_checks(**wanted) if it.is_wrong]


def noted() -> list[str]:
    return [f"{it.check}: {it.message}" for it in doctor.run_checks() if not it.is_wrong]


def one(message: str, **wanted: Any) -> str:
    """The only wrong finding; its message contains this text."""
    wrong = found(**wanted)
    assert len(wrong) == 1, wrong
    assert message in wrong[0]
    return wrong[0]


def among(message: str) -> str:
    """The only wrong finding besides the record that the test changed; its message contains this text."""
    wrong = [it for it in found() if not it.startswith("records:")]
    assert len(wrong) == 1, wrong
    assert message in wrong[0]
    return wrong[0]


def runs_of_every_status() -> list[Run]:
    """Runs in every status, made by the use cases."""
    ana = builders.a_reviewer()
    waiting, decided, claimed = (builders.a_waiting_interrupt() for _ in range(3))
    builders.decide(decided, ana)
    builders.decide(claimed, ana)
    [taken] = builders.claim(claimed.agent)
    complete_run(agent=claimed.agent, run_id=taken.run.public_id, token=taken.lease.token, result=None)
    acting = a_leased_run()
    begin(acting)
    report(acting)
    builders.a_running_run()
    return [waiting.run, decided.run, claimed.run, acting]


def test_a_sound_installation_has_no_findings():
    runs_of_every_status()
    assert found() == []


# --- rows -------------------------------------------------------------------------------------------------------------


@pytest.mark.proves(24)
@pytest.mark.parametrize(
    ("breaking", "message"),
    [
        (
            lambda run: Event.objects.filter(run=run, seq=1).update(actor="person:mallory@example.org"),
            "event 1 was changed",
        ),
        (lambda run: Event.objects.filter(run=run, seq=2).delete(), "end is missing after event 1"),
        (lambda run: Event.objects.filter(run=run, seq=1).delete(), "event 1 is missing"),
    ],
)
def test_a_broken_timeline_is_found(breaking: Callable[[Run], object], message: str):
    run = runs_of_every_status()[0]
    with without_triggers():
        breaking(run)
    assert [it for it in found() if run.public_id in it and message in it]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"status": "ready"}, "its status is ready, but must be waiting by its rows"),
        ({"open_waits": 2}, "open requests: 2 stored, 1 found"),
        ({"open_holds": 1}, "open holds: 1 stored, 0 found"),
    ],
)
def test_a_wrong_status_or_counter_of_a_run_is_found(columns: dict[str, Any], message: str):
    run = runs_of_every_status()[0]
    Run.objects.filter(pk=run.pk).update(**columns)
    assert run.public_id in one(message)


def test_a_run_without_lease_request_and_continuation_is_found():
    run = runs_of_every_status()[0]
    Run.objects.filter(pk=run.pk).update(open_waits=0)
    Interrupt.objects.filter(run=run).update(status="expired")
    among("it has no lease, no open request and no continuation")


def test_a_continuation_that_the_run_does_not_know_is_found():
    run = ready_for(timedelta())
    Continuation.objects.filter(run=run).update(status="checking", check_due_at=clock.now() + DAYS_AGO)
    one("open continuation: ready stored, checking found")


def a_run_in_the_feed() -> Run:
    """A run whose events all have their number in the feed."""
    run = runs_of_every_status()[1]
    with transaction.atomic():
        number_events(agent_id=run.agent_id, limit=100)
    return run


def recut(run: Run, *, keep: int, **changed: Any) -> None:
    """What an attacker does who can write every row: cut or change a timeline, and make the rest of the chain fit."""
    prev = ""
    with without_triggers():
        Event.objects.filter(run=run, seq__gt=keep).delete()
    for event in Event.objects.filter(run=run).order_by("seq"):
        for name, value in changed.items():
            setattr(event, name, value)
        event.prev = prev
        event.digest = prev = digest(event.covered())
        with without_triggers():
            Event.objects.filter(pk=event.pk).update(prev=event.prev, digest=event.digest, **changed)
    Run.objects.filter(pk=run.pk).update(timeline_seq=keep, timeline_head=prev)


@pytest.mark.proves(24)
def test_two_events_that_changed_places_are_found():
    run = runs_of_every_status()[1]
    first, second = Event.objects.filter(run=run, seq__in=(2, 3)).order_by("seq")
    with without_triggers():
        Event.objects.filter(pk=first.pk).update(seq=99)
        Event.objects.filter(pk=second.pk).update(seq=2)
        Event.objects.filter(pk=first.pk).update(seq=3)
    assert run.public_id in among("event 2 does not follow event 1")


@pytest.mark.proves(24)
@pytest.mark.parametrize("column", ["type", "actor", "at", "refs", "prev", "digest"])
def test_a_flip_in_any_column_of_an_event_is_found(column: str):
    run = runs_of_every_status()[1]
    other = {"at": clock.now() + DAYS_AGO, "refs": {"interrupt": "int_other"}}.get(column, "other")
    with without_triggers():
        Event.objects.filter(run=run, seq=2).update(**{column: other})
    one(f"Run {run.public_id}: event ")


@pytest.mark.proves(24)
def test_a_tail_cut_off_with_its_head_made_to_fit_leaves_a_gap_in_the_feed():
    run = a_run_in_the_feed()
    recut(run, keep=3)
    assert find_broken_event(Run.objects.get(pk=run.pk)) == ""
    among("feed: The event feed of purchase-requests has a gap: ")


@pytest.mark.proves(24)
def test_the_newest_event_of_a_feed_cut_off_is_found():
    a_run_in_the_feed()
    newest = Event.objects.exclude(announced_seq=None).order_by("-announced_seq")[0].run
    assert find_broken_event(newest) == ""
    recut(newest, keep=newest.timeline_seq - 1)
    among("feed: The event feed of purchase-requests has a gap at its end: 1 missing up to number ")


@pytest.mark.proves(24)
def test_a_history_rewritten_from_end_to_end_is_found_by_its_anchors(tmp_path):
    run = a_run_in_the_feed()
    kept = tmp_path / "anchors.jsonl"
    with kept.open("w") as file:
        call_command("anchors", stdout=file)
    anchors = list(history_integrity.read_anchors(kept.read_text().splitlines()))
    builders.claim(run.agent)  # it continues, which breaks no anchor
    assert found(anchors=anchors) == []

    recut(run, keep=Run.objects.get(pk=run.pk).timeline_seq, actor="person:mallory@example.org")
    assert found() == []
    assert run.public_id in one("of the anchor is not the recorded one. The timeline was rewritten.", anchors=anchors)


def test_anchors_end_silently_when_their_reader_has_closed_the_pipe(capfd):
    a_run_in_the_feed()
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as pipe, pytest.raises(SystemExit) as ended:
        call_command("anchors", stdout=pipe)
    assert ended.value.code == 1
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    "line",
    [
        "[1]",
        "[" * 100_000,
        '{"run": "run_1", "seq": 1e999, "head": ""}',
        '{"run": "run_1", "seq": true, "head": ""}',
        '{"run": "run_1", "seq": 1, "head": null}',
        '{"run": "\\ud800", "seq": 1, "head": ""}',
        '{"run": "run_\\u0000", "seq": 1, "head": ""}',
        '{"run": "\\u001b[2J", "seq": 1, "head": ""}',
    ],
)
def test_anchors_that_cannot_be_read_are_refused(tmp_path, line: str):
    (tmp_path / "anchors.jsonl").write_text(f"{line}\n")
    with pytest.raises(CommandError, match="line 1 is not an anchor"):
        call_command("doctor", anchors=str(tmp_path / "anchors.jsonl"))


def test_a_feed_that_jumped_after_a_restored_backup_has_no_gap():
    run = a_run_in_the_feed()
    hold_after_restore()
    assert [it for it in found() if it.startswith("feed")] == []
    with transaction.atomic():
        number_events(agent_id=run.agent_id, limit=100)
    assert [it for it in found() if it.startswith("feed")] == []


def test_a_run_that_changed_meanwhile_is_checked_again(monkeypatch: pytest.MonkeyPatch):
    """Between the list and the lock another process corrected what looked wrong."""
    run = runs_of_every_status()[0]
    Run.objects.filter(pk=run.pk).update(open_waits=2)
    check_locked = row_consistency._check_locked

    def mended(pk: int) -> list[tuple[str, str]]:
        Run.objects.filter(pk=run.pk).update(open_waits=1)
        return check_locked(pk)

    monkeypatch.setattr(row_consistency, "_check_locked", mended)
    assert found() == []


def test_only_the_newest_timelines_can_be_read():
    older, newer = builders.a_waiting_interrupt().run, builders.a_waiting_interrupt().run
    with without_triggers():
        Event.objects.filter(run=older, seq=1).update(actor="x")
    assert found(newest=1) == []
    assert newer.pk > older.pk
    one("event 1 was changed", newest=2)


def test_references_to_missing_rows_are_found():
    with transaction.atomic():
        effect = an_effect("applied")
    Effect.objects.filter(pk=effect.pk).update(permit_ref="per_gone")
    wrong = found()
    assert len(wrong) == 2
    assert "which is not a run" in wrong[0]
    assert "which is not a permit" in wrong[1]


def test_a_permit_without_its_decision_is_found():
    permit = a_permit(a_leased_run())
    permit.decision.status = "revoked"
    permit.decision.save(update_fields=["status"])
    among(f"Permit {permit.public_id} is valid, but its decision is revoked")
    Permit.objects.update(void_at=clock.now())
    assert [it for it in found() if it.startswith("orphans")] == []


# --- work -------------------------------------------------------------------------------------------------------------


def test_a_silent_worker_and_none_at_all_are_found():
    Heartbeat.objects.update(beaten_at=clock.now() - timedelta(minutes=5))
    one("The last heartbeat of a worker was 5 min ago")
    Heartbeat.objects.all().delete()
    one("No worker is running")


def test_a_task_that_waits_too_long_is_found_and_one_that_is_being_done_is_not():
    OrmQ.objects.create(key="reviewqueue", payload="x", lock=clock.now() + timedelta(minutes=4))
    assert found() == []
    OrmQ.objects.create(key="reviewqueue", payload="x", lock=clock.now() - timedelta(minutes=4))
    one("The oldest task has waited for 4 min")


@pytest.mark.parametrize(("apart", "message"), [(9, "9 s behind"), (-9, "9 s ahead of"), (1, "")])
def test_clocks_that_differ_are_found(monkeypatch: pytest.MonkeyPatch, apart: int, message: str):
    moment = clock.now
    monkeypatch.setattr(workers.clock, "now", lambda: moment() + timedelta(seconds=apart))
    wrong = [it.message for it in workers.clocks()]
    assert len(wrong) == bool(message)
    assert message in "".join(wrong)


def test_what_is_due_and_was_not_swept_is_found():
    interrupt = builders.a_waiting_interrupt()
    builders.move_deadline(interrupt, clock.now() - timedelta(seconds=10))
    assert found() == [], "a sweep may take a while"
    builders.move_deadline(interrupt, clock.now() - timedelta(minutes=3))
    one("Not processed by any sweep: 1 requests past their deadline, the oldest due for 3 min")
    expire.expire_due_interrupts(limit=10)
    assert found() == []


def test_a_lapsed_lease_is_found():
    started = builders.a_running_run()
    builders.end_lease_now(started.run, clock.now() - timedelta(minutes=2))
    one("1 expired leases")


def test_events_that_are_not_published_are_found(monkeypatch: pytest.MonkeyPatch):
    builders.a_running_run()
    monkeypatch.setattr(workers, "SWEEPS_MAY_TAKE", timedelta())
    one("1 events not published")


def test_a_wrong_count_of_incompatible_code_versions_is_found():
    """A claim looks for the versions only if the run's counter is not zero."""
    run = ready_for(timedelta())
    HandBack.objects.create(run=run, code_version="2", reason="incompatible", at=clock.now())
    one(f"{run.public_id}: code versions that cannot continue it: 0 stored, 1 found")


def test_a_claimable_run_without_ready_since_is_found():
    run = ready_for(timedelta())
    Run.objects.filter(pk=run.pk).update(ready_since=None)
    one(f"{run.public_id}: it can be claimed, but ready_since is empty")


def test_a_row_that_makes_sweeps_fail_is_found():
    interrupt = builders.a_waiting_interrupt()
    Interrupt.objects.filter(pk=interrupt.pk).update(sweep_after=clock.now() + timedelta(minutes=4))
    one(f"Request {interrupt.public_id} made a sweep fail")


def ready_for(length: timedelta) -> Run:
    interrupt = builders.a_waiting_interrupt()
    builders.decide(interrupt, builders.a_reviewer())
    offered_at = clock.now() - length
    Continuation.objects.update(not_before=offered_at)
    Run.objects.filter(pk=interrupt.run_id).update(ready_since=offered_at)
    return interrupt.run


def test_a_continuation_that_no_worker_claims_is_found():
    ready_for(timedelta(hours=5))
    one("No worker claims 1 run of agent purchase-requests, the oldest ready for 5 h")


def test_a_run_can_allow_days_until_its_cron_job_claims_it():
    run = ready_for(timedelta(hours=5))
    Run.objects.filter(pk=run.pk).update(unclaimed_seconds=30 * 86400)
    assert found() == []
    assert "No worker claims" in "".join(noted())


@pytest.mark.parametrize("held", ["paused", "halted", "fresh"])
def test_a_run_that_cannot_continue_needs_no_worker(held: str):
    run = ready_for(timedelta(minutes=10) if held == "fresh" else timedelta(hours=5))
    if held == "paused":
        ask_pause_of(run)
    if held == "halted":
        halt_agents(slugs=[run.agent.slug], actor="person:op@example.org", reason="look")
    assert found() == []


def ask_pause_of(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(pause_asked_at=clock.now())
    with transaction.atomic():
        save_status(locked_runs().get(pk=run.pk), clock.now())


# --- configuration ----------------------------------------------------------------------------------------------------


def test_plain_http_is_wrong_unless_base_url_is_this_machine(settings):
    assert any("security.W" in message for message in noted())
    settings.BASE_URL = "http://review.example.org"
    assert any("SECURE_SSL_REDIRECT" in message for message in found())


def test_a_weak_key_is_wrong_everywhere(settings):
    settings.SECRET_KEY = "short"
    one("security.W009")


def test_a_token_that_can_be_guessed_is_found(settings):
    settings.METRICS_TOKEN = "metrics"
    one("METRICS_TOKEN must have at least 16 characters")


@pytest.mark.parametrize(
    ("changed", "note"),
    [
        ({"REQUIRE_SECOND_FACTOR": ["none"]}, "REQUIRE_SECOND_FACTOR is none"),
        ({"SHUTDOWN_DELAY": 0}, "SHUTDOWN_DELAY is 0"),
    ],
)
def test_settings_weaker_than_the_threat_model_assumes_are_noted(settings, changed: dict[str, Any], note: str):
    hard = {"REQUIRE_SECOND_FACTOR": ["all"], "SHUTDOWN_DELAY": 10, "TRUSTED_PROXY_COUNT": 1}
    for name, value in (hard | changed).items():
        setattr(settings, name, value)
    assert list(configuration.hardening()) == []  # BASE_URL is this machine: nothing to reach
    settings.BASE_URL = "https://review.example.org"
    [finding] = configuration.hardening()
    assert (note in finding.message, finding.is_wrong) == (True, False)


@pytest.mark.parametrize(
    ("host", "sslmode", "is_readable"),
    [
        ("", "", False),
        ("/run/postgresql", "", False),
        ("127.0.0.1", "", False),
        ("db.example.org", "", True),
        ("db.example.org", "require", True),
        ("db.example.org", "verify-ca", True),
        ("db.example.org", "verify-full", False),
        ("/run/a,/run/b", "", False),
        ("/run/a,db.example.org", "require", True),
    ],
)
def test_a_database_on_another_machine_needs_verified_tls(host: str, sslmode: str, is_readable: bool):
    assert configuration.is_readable_on_the_way({"HOST": host, "OPTIONS": {"sslmode": sslmode}}) is is_readable


@pytest.mark.parametrize("block", ["0.0.0.0/0", "::/0"])
def test_outbound_calls_to_every_address_are_wrong(settings, block: str):
    settings.OUTBOUND_ALLOW = ["10.0.0.0/8", block]
    assert [found.is_wrong for found in configuration.hardening()] == [True]


def test_an_effect_rule_that_any_queue_may_approve_is_wrong():
    builders.a_policy()
    rule = a_rule()
    assert found() == []
    builders.a_policy(any_queue=True)
    one(f"Agent {rule.agent.slug} can ask any queue to approve issue_*, because policy approval.action, version 3,")
    assert "policies: Policy approval.action, version 3, lets a request name any queue." in noted()


def test_agents_that_may_begin_any_effect_are_reported():
    agent = builders.an_agent()
    assert any(f"Agent {agent.slug} may begin any effect. To allow only those" in message for message in noted())
    agent.effect_mode = "listed"
    agent.save()
    assert not [message for message in noted() if message.startswith("effects")]
    EffectRule.objects.create(agent=agent, name_pattern="*", action="allow")
    assert f"effects: Agent {agent.slug} may begin any effect: its rule * allows every name." in noted()


def test_policies_without_a_queue_and_a_missing_mail_server_are_reported(settings):
    settings.EMAIL_HOST = ""
    notes = noted()
    assert any("Policy approval.action, version 1, has no queue" in message for message in notes)
    assert any("EMAIL_HOST" in message for message in notes)
    builders.a_policy("approval.action")
    assert not any("approval.action" in message for message in noted())


def test_a_queue_without_a_reviewer_is_wrong_once_it_has_an_open_request():
    queue = builders.a_queue("night-shift")
    assert any("Queue night-shift has no person who may decide" in message for message in noted())
    interrupt = builders.a_waiting_interrupt()
    Interrupt.objects.filter(pk=interrupt.pk).update(queue=queue)
    among("Queue night-shift has no person who may decide, and 1 open request.")


def test_a_hold_owned_by_a_group_without_members_is_found():
    run = builders.a_running_run().run
    owner = builders.a_group("left-the-company")
    with transaction.atomic():
        locked = locked_runs().get(pk=run.pk)
        open_hold(locked, HoldKind.GAVE_UP, owner_id=owner.pk, reason="x", now=clock.now())
        save_status(locked, clock.now())
    one("Group left-the-company has no active member, and owns 0 unknown outcomes and 1 hold.")
    builders.a_person("olga@example.org", "left-the-company")
    assert found() == []


# --- files ------------------------------------------------------------------------------------------------------------


def a_stored_file(sent: bytes = b"bytes") -> CheckpointFile:
    started = builders.a_running_run()
    spooled = file_storage.spool_upload([sent])
    of_run = {"agent": started.run.agent, "run_id": started.run.public_id, "token": started.lease.token}
    with spooled.file:
        transfer_file.upload_file(**of_run, number=1, sent=spooled)
    builders.commit(started)
    return started.run.files.get()


def test_a_storage_that_accepts_no_file_is_found(monkeypatch, settings):
    def broken(name, content):
        raise PermissionError(13, "Permission denied")

    assert found() == []
    assert list(settings.MEDIA_ROOT.iterdir()) == []
    monkeypatch.setattr(default_storage, "save", broken)
    one("storage: The storage accepts no checkpoint files ([Errno 13] Permission denied).")
    settings.CHECKPOINT_FILE_BYTES = 0
    assert found() == []


def test_a_missing_or_incomplete_file_is_found(monkeypatch):
    file, other = a_stored_file(), a_stored_file()
    assert found() == []
    default_storage.delete(file.name)
    assert file.name in one("is missing from the storage, or incomplete")
    default_storage.save(file.name, ContentFile(b"byte"))
    one("is missing from the storage, or incomplete")
    monkeypatch.setattr(checkpoint_files, "MAX_FILES_CHECKED", 1)  # only the newest is checked
    assert found() == []
    default_storage.delete(other.name)
    assert other.name in one("is missing from the storage")


# --- the command ------------------------------------------------------------------------------------------------------


def run_doctor(*arguments: str) -> tuple[int, str]:
    output = io.StringIO()
    try:
        call_command("doctor", *arguments, stdout=output)
    except SystemExit as ended:
        return int(str(ended.code)), output.getvalue()
    return 0, output.getvalue()


def test_the_command_ends_with_0_when_nothing_is_wrong_and_with_1_when_something_is():
    status, output = run_doctor()
    assert (status, output.splitlines()[-1]) == (0, "Nothing is wrong.")
    Heartbeat.objects.all().delete()
    status, output = run_doctor()
    assert status == 1
    assert output.startswith("WRONG  worker: No worker is running.")
    assert output.endswith("1 wrong.\n")


def test_the_command_writes_metrics_for_node_exporter(tmp_path):
    OrmQ.objects.create(key="reviewqueue", payload="x", lock=clock.now() - timedelta(minutes=5))
    file = tmp_path / "reviewqueue.prom"
    with pytest.raises(SystemExit):
        call_command("doctor", metrics=str(file), stdout=io.StringIO())
    written = file.read_text()
    assert 'reviewqueue_doctor_findings{check="tasks",severity="wrong"} 1.0' in written
    assert "reviewqueue_doctor_run_timestamp_seconds 1" in written
    with pytest.raises(CommandError, match="Cannot write the metrics"):
        call_command("doctor", metrics=str(tmp_path / "none" / "x.prom"), stdout=io.StringIO())


def test_the_command_prints_json():
    Heartbeat.objects.all().delete()
    status, output = run_doctor("--json")
    result = json.loads(output)
    assert (status, result["healthy"]) == (1, False)
    message = "No worker is running. Start one: python3 manage.py worker"
    assert {"check": "worker", "wrong": True, "message": message} in result["findings"]


def test_without_a_database_or_its_migrations_there_is_one_finding(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(health, "is_migrated", lambda: False)
    one("not migrated")

    def unreachable() -> bool:
        raise DatabaseError("connection refused")

    monkeypatch.setattr(health, "is_migrated", unreachable)
    one("The database does not answer (connection refused)")


def test_many_of_a_kind_are_counted_instead_of_listed():
    for _ in range(23):
        builders.a_running_run()
    Run.objects.update(status="ready")
    wrong = found()
    assert len(wrong) == 21
    assert wrong[-1] == "status: 3 more findings like these are not listed."


def test_the_doctor_changes_nothing():
    runs_of_every_status()
    Run.objects.update(open_holds=3)
    before = list(Run.objects.order_by("pk").values())
    events = Event.objects.count()
    assert found()
    assert list(Run.objects.order_by("pk").values()) == before
    assert Event.objects.count() == events


# --- notifications -----------------------------------------------------------------------------------------------------


def test_notifications_that_were_given_up_are_noted_and_a_failing_server_is_wrong():
    now = clock.now()
    person = builders.a_reviewer()
    kept = {"channel": "mail", "person": person, "give_up_at": now, "created_at": now}
    NotificationMessage.objects.create(public_id="ntf_1", status="dead", ended_at=now, **kept)
    NotificationMessage.objects.create(public_id="ntf_2", next_at=now, trouble="It is \x1b[31m down.", **kept)
    NotificationService.objects.create(name="mail", failures=2)
    assert any("1 mail was given up." in note for note in noted())
    assert found() == []
    NotificationService.objects.update(failures=3)
    assert "\x1b" not in one("notifications: The mail server failed 3 times in a row. Due messages: 1.")


def test_a_chat_channel_without_its_variable_is_noted(monkeypatch):
    add_chat_channel("engineering", variable="CHAT_ENGINEERING", min_risk="low")
    assert any("CHAT_ENGINEERING" in note for note in noted())
    monkeypatch.setenv("CHAT_ENGINEERING", "json://localhost")
    assert not any("CHAT_ENGINEERING" in note for note in noted())
