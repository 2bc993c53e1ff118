"""The doctor: a healthy house is told healthy, and each thing that is broken on purpose is found by name."""

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
from reviewqueue.models import Heartbeat
from reviewqueue.operations import doctor, health
from reviewqueue.operations.doctor import checkpoint_files, history_integrity, row_consistency, workers
from runs import file_storage
from runs.event_feed import number_events
from runs.holds import open_hold
from runs.kill_switch import halt_agents
from runs.locks import locked_runs
from runs.models import CheckpointFile, Continuation, EffectRule, Event, HandBack, Interrupt, Permit, Run
from runs.run_status import store
from runs.states import HoldKind
from runs.timeline import find_break
from runs.use_cases import expire, transfer_file
from runs.use_cases.complete_run import complete_run
from runs.use_cases.hold_after_restore import hold_after_restore
from tests import builders
from tests.ledger.effect_builders import an_effect
from tests.runs.leased_run_builders import a_leased_run, a_permit, a_rule, begin, report
from tests.unguarded import without_guards

pytestmark = pytest.mark.django_db

AGES_AGO = timedelta(days=3)


@pytest.fixture(autouse=True)
def a_working_house(settings) -> None:
    """A worker that was heard of, mail that goes out, nothing queued."""
    settings.EMAIL_HOST = "mail.example.org"
    Heartbeat.objects.create(worker="one:1", beaten_at=clock.now())
    builders.a_reviewer()
    OrmQ.objects.all().delete()


def found(**wanted: Any) -> list[str]:
    """What is wrong, as "check: words"."""
    return [f"{it.check}: {it.words}" for it in doctor.examine(**wanted) if it.is_wrong]


def noted() -> list[str]:
    return [f"{it.check}: {it.words}" for it in doctor.examine() if not it.is_wrong]


def one(words: str, **wanted: Any) -> str:
    """The one wrong thing, which has these words."""
    wrong = found(**wanted)
    assert len(wrong) == 1, wrong
    assert words in wrong[0]
    return wrong[0]


def among(words: str) -> str:
    """The one wrong thing with these words, beside the record that the test changed to bring it about."""
    wrong = [it for it in found() if not it.startswith("records:")]
    assert len(wrong) == 1, wrong
    assert words in wrong[0]
    return wrong[0]


def lives() -> list[Run]:
    """Runs in every kind of standing, by the verbs."""
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


def test_a_house_in_order_is_told_so():
    lives()
    assert found() == []


# --- rows -------------------------------------------------------------------------------------------------------------


@pytest.mark.proves(24)
@pytest.mark.parametrize(
    ("breaking", "words"),
    [
        (
            lambda run: Event.objects.filter(run=run, seq=1).update(actor="person:mallory@example.org"),
            "event 1 was changed",
        ),
        (lambda run: Event.objects.filter(run=run, seq=2).delete(), "end is missing after event 1"),
        (lambda run: Event.objects.filter(run=run, seq=1).delete(), "event 1 is missing"),
    ],
)
def test_a_broken_timeline_is_found(breaking: Callable[[Run], object], words: str):
    run = lives()[0]
    with without_guards():
        breaking(run)
    assert [it for it in found() if run.public_id in it and words in it]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"status": "ready"}, "stored as ready, but its truths say waiting"),
        ({"open_waits": 2}, "open waits: 2 stored, 1 there"),
        ({"open_holds": 1}, "open holds: 1 stored, 0 there"),
    ],
)
def test_a_wrong_word_or_figure_of_a_run_is_found(columns: dict[str, Any], words: str):
    run = lives()[0]
    Run.objects.filter(pk=run.pk).update(**columns)
    assert run.public_id in one(words)


def test_a_run_that_nobody_can_move_is_found():
    run = lives()[0]
    Run.objects.filter(pk=run.pk).update(open_waits=0)
    Interrupt.objects.filter(run=run).update(status="expired")
    among("nobody holds it, nothing waits and nothing may go on")


def test_a_continuation_that_the_run_does_not_know_is_found():
    run = ready_for(timedelta())
    Continuation.objects.filter(run=run).update(status="checking", check_due_at=clock.now() + AGES_AGO)
    one("open continuation: ready stored, checking there")


def a_told_run() -> Run:
    """A run whose events all have their number in the feed."""
    run = lives()[1]
    with transaction.atomic():
        number_events(agent_id=run.agent_id, limit=100)
    return run


def recut(run: Run, *, keep: int, **changed: Any) -> None:
    """What somebody does who can write every row: cut the end of a timeline, or change an event, and make all behind fit."""
    prev = ""
    with without_guards():
        Event.objects.filter(run=run, seq__gt=keep).delete()
    for event in Event.objects.filter(run=run).order_by("seq"):
        for name, value in changed.items():
            setattr(event, name, value)
        event.prev = prev
        event.digest = prev = digest(event.covered())
        with without_guards():
            Event.objects.filter(pk=event.pk).update(prev=event.prev, digest=event.digest, **changed)
    Run.objects.filter(pk=run.pk).update(timeline_seq=keep, timeline_head=prev)


@pytest.mark.proves(24)
def test_two_events_that_changed_places_are_found():
    run = lives()[1]
    first, second = Event.objects.filter(run=run, seq__in=(2, 3)).order_by("seq")
    with without_guards():
        Event.objects.filter(pk=first.pk).update(seq=99)
        Event.objects.filter(pk=second.pk).update(seq=2)
        Event.objects.filter(pk=first.pk).update(seq=3)
    assert run.public_id in among("event 2 does not follow event 1")


@pytest.mark.proves(24)
@pytest.mark.parametrize("column", ["type", "actor", "at", "refs", "prev", "digest"])
def test_a_flip_in_any_column_of_an_event_is_found(column: str):
    run = lives()[1]
    other = {"at": clock.now() + AGES_AGO, "refs": {"interrupt": "int_other"}}.get(column, "other")
    with without_guards():
        Event.objects.filter(run=run, seq=2).update(**{column: other})
    one(f"{run.public_id}: event ")


@pytest.mark.proves(24)
def test_a_tail_cut_off_with_its_head_made_to_fit_leaves_a_gap_in_the_feed():
    run = a_told_run()
    recut(run, keep=3)
    assert find_break(Run.objects.get(pk=run.pk)) == ""
    among("feed: the feed of purchase-requests lacks ")


@pytest.mark.proves(24)
def test_the_newest_event_of_a_feed_cut_off_is_found():
    a_told_run()
    newest = Event.objects.exclude(announced_seq=None).order_by("-announced_seq")[0].run
    assert find_break(newest) == ""
    recut(newest, keep=newest.timeline_seq - 1)
    among("feed: the feed of purchase-requests lacks its last 1, up to number ")


@pytest.mark.proves(24)
def test_a_history_rewritten_from_end_to_end_is_found_by_its_anchors(tmp_path):
    run = a_told_run()
    kept = tmp_path / "anchors.jsonl"
    with kept.open("w") as file:
        call_command("anchors", stdout=file)
    anchors = list(history_integrity.read_anchors(kept.read_text().splitlines()))
    builders.claim(run.agent)  # it goes on, and that breaks no anchor
    assert found(anchors=anchors) == []

    recut(run, keep=Run.objects.get(pk=run.pk).timeline_seq, actor="person:mallory@example.org")
    assert found() == []
    assert run.public_id in one("by its anchor: the timeline was rewritten", anchors=anchors)


def test_anchors_for_a_reader_that_has_gone_end_without_a_word(capfd):
    a_told_run()
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
def test_anchors_that_cannot_be_read_are_refused_in_words(tmp_path, line: str):
    (tmp_path / "anchors.jsonl").write_text(f"{line}\n")
    with pytest.raises(CommandError, match="line 1 is no anchor"):
        call_command("doctor", anchors=str(tmp_path / "anchors.jsonl"))


def test_a_feed_that_leapt_after_a_restored_backup_has_no_gap():
    run = a_told_run()
    hold_after_restore()
    assert [it for it in found() if it.startswith("feed")] == []
    with transaction.atomic():
        number_events(agent_id=run.agent_id, limit=100)
    assert [it for it in found() if it.startswith("feed")] == []


def test_a_run_that_moved_meanwhile_is_looked_at_again(monkeypatch: pytest.MonkeyPatch):
    """Between the list and the lock another process put in order what looked wrong."""
    run = lives()[0]
    Run.objects.filter(pk=run.pk).update(open_waits=2)
    look_again = row_consistency._look_again

    def mended(pk: int) -> list[tuple[str, str]]:
        Run.objects.filter(pk=run.pk).update(open_waits=1)
        return look_again(pk)

    monkeypatch.setattr(row_consistency, "_look_again", mended)
    assert found() == []


def test_the_newest_timelines_alone_may_be_read():
    older, newer = builders.a_waiting_interrupt().run, builders.a_waiting_interrupt().run
    with without_guards():
        Event.objects.filter(run=older, seq=1).update(actor="x")
    assert found(newest=1) == []
    assert newer.pk > older.pk
    one("event 1 was changed", newest=2)


def test_rows_that_point_nowhere_are_found():
    with transaction.atomic():
        effect = an_effect("applied")
    Effect.objects.filter(pk=effect.pk).update(permit_ref="per_gone")
    wrong = found()
    assert len(wrong) == 2
    assert "which is no run" in wrong[0]
    assert "which is no permit" in wrong[1]


def test_a_permit_without_its_decision_is_found():
    permit = a_permit(a_leased_run())
    permit.decision.status = "revoked"
    permit.decision.save(update_fields=["status"])
    among(f"permit {permit.public_id} is good, though its decision is revoked")
    Permit.objects.update(void_at=clock.now())
    assert [it for it in found() if it.startswith("orphans")] == []


# --- work -------------------------------------------------------------------------------------------------------------


def test_a_silent_worker_and_none_at_all_are_found():
    Heartbeat.objects.update(beaten_at=clock.now() - timedelta(minutes=5))
    one("no worker was heard of for 5 min")
    Heartbeat.objects.all().delete()
    one("no worker runs")


def test_a_task_that_waits_too_long_is_found_and_one_that_is_being_done_is_not():
    OrmQ.objects.create(key="reviewqueue", payload="x", lock=clock.now() + timedelta(minutes=4))
    assert found() == []
    OrmQ.objects.create(key="reviewqueue", payload="x", lock=clock.now() - timedelta(minutes=4))
    one("the oldest task waits for 4 min")


@pytest.mark.parametrize(("apart", "words"), [(9, "9 s behind"), (-9, "9 s ahead of"), (1, "")])
def test_clocks_that_differ_are_found(monkeypatch: pytest.MonkeyPatch, apart: int, words: str):
    moment = clock.now
    monkeypatch.setattr(workers.clock, "now", lambda: moment() + timedelta(seconds=apart))
    wrong = [it.words for it in workers.clocks()]
    assert len(wrong) == bool(words)
    assert words in "".join(wrong)


def test_what_is_due_and_was_not_swept_is_found():
    interrupt = builders.a_waiting_interrupt()
    builders.move_deadline(interrupt, clock.now() - timedelta(seconds=10))
    assert found() == [], "a sweep may take a while"
    builders.move_deadline(interrupt, clock.now() - timedelta(minutes=3))
    one("1 open waits are past their deadline and were not swept; the first for 3 min")
    expire.expire_due_interrupts(limit=10)
    assert found() == []


def test_a_lapsed_lease_is_found():
    started = builders.a_running_run()
    builders.end_lease_now(started.run, clock.now() - timedelta(minutes=2))
    one("1 leases have lapsed")


def test_events_that_nobody_announces_are_found(monkeypatch: pytest.MonkeyPatch):
    builders.a_running_run()
    monkeypatch.setattr(workers, "SWEEPS_MAY_TAKE", timedelta())
    one("1 events are not announced and were not swept")


def test_a_run_that_miscounts_who_could_not_read_it_is_found():
    """The claim looks for the versions only where the run says that there are some."""
    run = ready_for(timedelta())
    HandBack.objects.create(run=run, code_version="2", reason="incompatible", at=clock.now())
    one(f"{run.public_id}: versions that cannot read it: 0 stored, 1 there")


def test_a_run_that_may_be_claimed_and_awaits_no_worker_is_found():
    run = ready_for(timedelta())
    Run.objects.filter(pk=run.pk).update(ready_since=None)
    one(f"{run.public_id}: it may be claimed, and says of itself that no worker is awaited")


def test_a_row_that_breaks_sweeps_is_found():
    interrupt = builders.a_waiting_interrupt()
    Interrupt.objects.filter(pk=interrupt.pk).update(sweep_after=clock.now() + timedelta(minutes=4))
    one(f"wait {interrupt.public_id} broke a sweep")


def ready_for(length: timedelta) -> Run:
    interrupt = builders.a_waiting_interrupt()
    builders.decide(interrupt, builders.a_reviewer())
    offered_at = clock.now() - length
    Continuation.objects.update(not_before=offered_at)
    Run.objects.filter(pk=interrupt.run_id).update(ready_since=offered_at)
    return interrupt.run


def test_a_continuation_that_no_worker_comes_for_is_found():
    ready_for(timedelta(hours=5))
    one("1 runs of purchase-requests may go on and no worker comes; the first since 5 h")


def test_an_ask_may_wait_for_its_cron_job():
    run = ready_for(timedelta(hours=5))
    Run.objects.filter(pk=run.pk).update(unclaimed_seconds=30 * 86400)
    assert found() == []
    assert "may go on and no worker comes" in "".join(noted())


@pytest.mark.parametrize("held", ["paused", "halted", "fresh"])
def test_what_may_not_go_on_is_awaited_by_nobody(held: str):
    run = ready_for(timedelta(minutes=10) if held == "fresh" else timedelta(hours=5))
    if held == "paused":
        ask_pause_of(run)
    if held == "halted":
        halt_agents(slugs=[run.agent.slug], actor="person:op@example.org", reason="look")
    assert found() == []


def ask_pause_of(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(pause_asked_at=clock.now())
    with transaction.atomic():
        store(locked_runs().get(pk=run.pk), clock.now())


# --- set-up -----------------------------------------------------------------------------------------------------------


def test_plain_http_is_wrong_where_people_reach_us_from_elsewhere(settings):
    assert any("security.W" in words for words in noted())
    settings.BASE_URL = "http://review.example.org"
    assert any("SECURE_SSL_REDIRECT" in words for words in found())


def test_a_weak_key_is_wrong_everywhere(settings):
    settings.SECRET_KEY = "short"
    one("security.W009")


def test_a_token_that_can_be_guessed_is_found(settings):
    settings.METRICS_TOKEN = "metrics"
    one("METRICS_TOKEN has fewer than 16 characters")


def test_an_effect_rule_that_any_queue_may_approve_is_wrong():
    builders.a_policy()
    rule = a_rule()
    assert found() == []
    builders.a_policy(any_queue=True)
    one(f"{rule.agent.slug} may ask any queue to approve issue_*: approval.action 3 does not bind its queues")
    assert "policies: approval.action 3 lets an agent name any queue" in noted()


def test_agents_that_may_begin_any_effect_are_told():
    agent = builders.an_agent()
    assert f"effects: {agent.slug} may begin any effect: manage.py set_effects {agent.slug} listed" in noted()
    agent.effect_mode = "listed"
    agent.save()
    assert not [words for words in noted() if words.startswith("effects")]
    EffectRule.objects.create(agent=agent, name_pattern="*", action="allow")
    assert f"effects: {agent.slug} may begin any effect: its rule * allows every name" in noted()


def test_policies_without_a_queue_and_mail_that_goes_nowhere_are_told(settings):
    settings.EMAIL_HOST = ""
    told = noted()
    assert any("approval.action 1 has no queue of its own" in words for words in told)
    assert any("EMAIL_HOST" in words for words in told)
    builders.a_policy("approval.action")
    assert not any("approval.action" in words for words in noted())


def test_a_queue_that_nobody_may_decide_in_is_wrong_once_somebody_waits_there():
    queue = builders.a_queue("night-shift")
    assert any("nobody may decide in night-shift" in words for words in noted())
    interrupt = builders.a_waiting_interrupt()
    Interrupt.objects.filter(pk=interrupt.pk).update(queue=queue)
    among("nobody may decide in night-shift, where 1 wait")


def test_a_doubt_that_nobody_owns_is_found():
    run = builders.a_running_run().run
    owner = builders.a_group("left-the-company")
    with transaction.atomic():
        locked = locked_runs().get(pk=run.pk)
        open_hold(locked, HoldKind.GAVE_UP, owner_id=owner.pk, reason="x", now=clock.now())
        store(locked, clock.now())
    one("left-the-company owns 0 unknown effects and 1 holds, and has no member")
    builders.a_person("olga@example.org", "left-the-company")
    assert found() == []


# --- files ------------------------------------------------------------------------------------------------------------


def a_kept_file(sent: bytes = b"bytes") -> CheckpointFile:
    started = builders.a_running_run()
    spooled = file_storage.spool([sent])
    of_run = {"agent": started.run.agent, "run_id": started.run.public_id, "token": started.lease.token}
    with spooled.file:
        transfer_file.offer_file(**of_run, number=1, sent=spooled)
    builders.commit(started)
    return started.run.files.get()


def test_a_storage_that_takes_nothing_is_found(monkeypatch, settings):
    def broken(name, content):
        raise PermissionError(13, "Permission denied")

    assert found() == []
    assert list(settings.MEDIA_ROOT.iterdir()) == []
    monkeypatch.setattr(default_storage, "save", broken)
    one("storage: the storage takes no checkpoint files ([Errno 13] Permission denied)")
    settings.CHECKPOINT_FILE_BYTES = 0
    assert found() == []


def test_a_file_that_is_missing_or_not_whole_is_found(monkeypatch):
    file, other = a_kept_file(), a_kept_file()
    assert found() == []
    default_storage.delete(file.name)
    assert file.name in one("is not in the storage, or not whole")
    default_storage.save(file.name, ContentFile(b"byte"))
    one("is not in the storage, or not whole")
    monkeypatch.setattr(checkpoint_files, "MOST_LOOKED_FOR", 1)  # the newest is looked for
    assert found() == []
    default_storage.delete(other.name)
    assert other.name in one("is not in the storage")


# --- the command ------------------------------------------------------------------------------------------------------


def run_doctor(*arguments: str) -> tuple[int, str]:
    said = io.StringIO()
    try:
        call_command("doctor", *arguments, stdout=said)
    except SystemExit as ended:
        return int(str(ended.code)), said.getvalue()
    return 0, said.getvalue()


def test_the_command_ends_with_0_when_nothing_is_wrong_and_with_1_when_something_is():
    status, said = run_doctor()
    assert (status, said.splitlines()[-1]) == (0, "Nothing is wrong.")
    Heartbeat.objects.all().delete()
    status, said = run_doctor()
    assert status == 1
    assert said.startswith("WRONG  worker: no worker runs")
    assert said.endswith("1 wrong.\n")


def test_the_command_speaks_json():
    Heartbeat.objects.all().delete()
    status, said = run_doctor("--json")
    told = json.loads(said)
    assert (status, told["healthy"]) == (1, False)
    assert {"check": "worker", "wrong": True, "words": "no worker runs: python3 manage.py worker"} in told["findings"]


def test_without_a_database_or_its_migrations_there_is_one_finding(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(health, "is_migrated", lambda: False)
    one("not migrated")

    def away() -> bool:
        raise DatabaseError("connection refused")

    monkeypatch.setattr(health, "is_migrated", away)
    one("the database does not answer (connection refused)")


def test_many_of_a_kind_are_counted_instead_of_listed():
    for _ in range(23):
        builders.a_running_run()
    Run.objects.update(status="ready")
    wrong = found()
    assert len(wrong) == 21
    assert wrong[-1] == "status: and 3 more like these"


def test_the_doctor_changes_nothing():
    lives()
    Run.objects.update(open_holds=3)
    before = list(Run.objects.order_by("pk").values())
    events = Event.objects.count()
    assert found()
    assert list(Run.objects.order_by("pk").values()) == before
    assert Event.objects.count() == events
