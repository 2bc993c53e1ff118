"""Code versions: who cannot read a checkpoint hands it back, others may try, an owner gives it to another version."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import transaction

from ledger import clock
from ledger.errors import NotFound
from runs.errors import AlreadyClaimed, IncompatibleVersion, NotReady, RunCancelled, RunFinished
from runs.holds import open_hold
from runs.locks import locked_runs
from runs.models import Continuation, Event, HandBack, Hold, Run
from runs.run_status import save_status
from runs.states import HoldKind
from runs.use_cases.claim_continuation import has_claimable_run
from runs.use_cases.complete_run import complete_run
from runs.use_cases.control_run import cancel_run, pause_run, restart_run, resume_run, retag_run
from runs.use_cases.reconcile_outcomes import retry_held_run
from runs.use_cases.release_lease import hand_back_run
from tests import builders
from tests.runs.leased_run_builders import begin

pytestmark = pytest.mark.django_db

PERSON = "person:own@example.org"


def claim_as(run: Run, version: str, *, reads: set[str] | None = None):
    return builders.claim(run.agent, code_version=version, code_versions={version, *(reads or {"1"})})


def unread_by(run: Run, *versions: str, reason: str = "incompatible") -> Run:
    """Each claims it, finds that it cannot read the checkpoint, and hands it back."""
    for version in versions:
        [claimed] = claim_as(run, version)
        words = {"agent": run.agent, "run_id": run.public_id, "token": claimed.lease.token}
        hand_back_run(**words, reason=reason, detail="no such step")
    run.refresh_from_db()
    return run


def an_answered_run(**request) -> Run:
    started = builders.a_running_run(code_version="1", **request)
    interrupt = builders.a_waiting_interrupt(started=started)
    builders.decide(interrupt, builders.a_reviewer())
    return started.run


def retag(run: Run, version: str, *, reason: str = "it reads it") -> Run:
    return retag_run(run_id=run.public_id, actor=PERSON, code_version=version, reason=reason, check=lambda _: None)


def a_stranded_run() -> Run:
    return unread_by(an_answered_run(), "1", "2", "3")


@pytest.mark.parametrize("reason", ["incompatible", "unknown_checkpoint"])
def test_a_version_that_cannot_read_it_is_not_asked_again_while_others_are(reason):
    """CASES C131."""
    run = unread_by(an_answered_run(), "2", reason=reason)
    assert (run.status, run.open_continuation, run.open_holds) == ("ready", "ready", 0)
    assert claim_as(run, "2") == []
    assert not has_claimable_run(agent=run.agent, code_version="2", code_versions={"1", "2"})
    assert has_claimable_run(agent=run.agent, code_version="3", code_versions={"1"})
    [claimed] = claim_as(run, "3")
    assert [answer.verdict for answer in claimed.answers] == ["approve"]
    told = Event.objects.filter(run=run, type="lease.handed_back").get().refs
    assert (told["code_version"], told["reason"], told["ready"]) == ("2", reason, True)


def test_by_its_id_it_is_not_given_to_that_version_either():
    run = unread_by(an_answered_run(), "2")
    it = Continuation.objects.get(run=run)
    with pytest.raises(IncompatibleVersion, match="code version 2 could not read the checkpoint"):
        builders.claim_by_id(run.agent, it.public_id, code_version="2", code_versions={"1", "2"})
    assert builders.claim_by_id(run.agent, it.public_id, code_version="1", code_versions={"1"})


def test_who_names_no_version_is_one_too():
    run = builders.a_running_run(lease_seconds=0).run
    unread_by(run, "")
    assert claim_as(run, "") == []
    it = Continuation.objects.get(run=run)
    with pytest.raises(IncompatibleVersion, match="without a code version"):
        builders.claim_by_id(run.agent, it.public_id, code_versions=set())
    assert len(claim_as(run, "1")) == 1


def test_a_handed_back_run_waits_as_long_as_a_held_one():
    run = an_answered_run()
    run.refresh_from_db()
    day = run.expires_at
    assert day < clock.now() + timedelta(days=2)
    assert unread_by(run, "2").expires_at > day + timedelta(days=5)


def test_the_third_version_leaves_it_to_its_owner_and_the_decision_stays():
    run = unread_by(an_answered_run(), "1", "2")
    assert (run.status, run.handed_back) == ("ready", 2)
    unread_by(run, "3")
    assert (run.status, run.open_continuation) == ("blocked", "ready")
    hold = Hold.objects.get()
    assert (hold.kind, hold.reason) == (
        "stranded",
        "3 code versions could not read its checkpoint. The last one reported incompatible.",
    )
    assert Event.objects.filter(run=run, type="hold.opened").get().refs["kind"] == "stranded"
    assert [claim_as(run, version) for version in "123"] == [[], [], []]


def test_the_same_version_twice_is_one():
    """A version hands back twice if an owner let all try again, or if it claimed before its first hand-back."""
    run = unread_by(an_answered_run(), "1", "2")
    HandBack.objects.filter(code_version="1").update(code_version="not asked")
    assert unread_by(run, "1").handed_back == 3
    assert HandBack.objects.filter(run=run, over_at=None).count() == 3


def test_an_ordinary_claim_by_another_version_lifts_the_hold():
    run = a_stranded_run()
    assert has_claimable_run(agent=run.agent, code_version="4", code_versions={"1"})
    [claimed] = claim_as(run, "4")
    run.refresh_from_db()
    assert (run.status, run.open_holds) == ("running", 0)
    assert [answer.verdict for answer in claimed.answers] == ["approve"]
    builders.suspend_by(run, claimed.lease.token, builders.a_wait("another"))
    run.refresh_from_db()
    assert run.handed_back == 0
    assert HandBack.objects.filter(over_at=None).count() == 0
    assert HandBack.objects.count() == 3


def test_a_claim_does_not_lift_it_beside_another_hold():
    run = a_stranded_run()
    hold_too(run)
    assert claim_as(run, "4") == []
    it = Continuation.objects.get(run=run)
    with pytest.raises(NotReady):
        builders.claim_by_id(run.agent, it.public_id, code_version="4", code_versions={"1"})
    assert Hold.objects.filter(lifted_at=None).count() == 2


def hold_too(run: Run) -> None:
    with transaction.atomic():
        locked, now = locked_runs().get(pk=run.pk), clock.now()
        open_hold(locked, HoldKind.CONTRADICTION, "x", owner_id=run.agent.owner_id, reason="a reason", now=now)
        save_status(locked, now)


def test_a_stranded_run_whose_check_is_too_old_is_checked_and_then_claimed():
    run = a_stranded_run()
    Continuation.objects.filter(run=run).update(checked_until=clock.now() - timedelta(minutes=1))
    assert claim_as(run, "4") == []
    it = Continuation.objects.get(run=run)
    assert it.status == "checking"
    builders.check(it.public_id)
    it.refresh_from_db()
    assert it.status == "ready"
    assert len(claim_as(run, "4")) == 1


def test_effects_begun_before_a_hand_back_are_unknown_and_the_version_is_recorded():
    run = builders.a_running_run(lease_seconds=0, code_version="1").run
    [claimed] = claim_as(run, "2")
    run.refresh_from_db()
    begin(run)
    hand_back_run(agent=run.agent, run_id=run.public_id, token=claimed.lease.token, reason="incompatible", detail="")
    run.refresh_from_db()
    assert (run.status, run.open_continuation, run.handed_back) == ("blocked", "checking", 1)


def test_the_worker_that_started_it_is_of_its_version():
    started = builders.a_running_run(code_version="1")
    run = started.run
    words = {"agent": run.agent, "run_id": run.public_id, "token": started.lease.token}
    hand_back_run(**words, reason="unknown_checkpoint", detail="")
    assert list(HandBack.objects.values_list("code_version", flat=True)) == ["1"]
    assert claim_as(run, "1") == []


def test_a_retry_keeps_no_version_away():
    run = an_answered_run()
    unread_by(run, "2", reason="retry")
    assert (run.handed_back, len(claim_as(run, "2"))) == (0, 1)


def test_an_owner_lets_every_version_try_again():
    run = a_stranded_run()
    owner = builders.a_person("own@example.org", "agent-owners")
    retry_held_run(hold_id=Hold.objects.get().pk, person=owner, reason="its module is back")
    run.refresh_from_db()
    assert (run.status, run.attempts, run.handed_back) == ("ready", 0, 0)
    assert Event.objects.filter(run=run, type="hold.lifted").get().refs["ready"] is True
    assert len(claim_as(run, "1")) == 1


# --- retag ------------------------------------------------------------------------------------------------------------


def test_a_stranded_run_is_given_to_another_version():
    run = retag(a_stranded_run(), "5")
    assert (run.status, run.code_version, run.attempts, run.handed_back) == ("ready", "5", 0, 0)
    assert Hold.objects.get().lifted_by == PERSON
    it = Continuation.objects.get(run=run)
    told = Event.objects.get(run=run, type="run.retagged")
    assert told.refs == {
        "before": "1",
        "code_version": "5",
        "reason": "it reads it",
        "continuation": it.public_id,
        "ready": True,
    }
    assert builders.claim(run.agent, code_version="1", code_versions={"1"}) == []
    [claimed] = builders.claim(run.agent, code_version="5", code_versions={"5"})
    assert [answer.verdict for answer in claimed.answers] == ["approve"]


def test_a_version_that_handed_it_back_may_be_the_one():
    """Its owner mended it: what it could not read is past."""
    run = unread_by(an_answered_run(), "2")
    retag(run, "2")
    assert len(builders.claim(run.agent, code_version="2", code_versions={"2"})) == 1


def test_the_same_again_changes_nothing():
    run = an_answered_run()
    for _ in range(2):
        assert retag(run, "2").code_version == "2"
    assert Event.objects.filter(run=run, type="run.retagged").count() == 1


def test_a_waiting_run_is_retagged_before_its_answer_comes():
    interrupt = builders.a_waiting_interrupt(started=builders.a_running_run(code_version="1"))
    assert retag(interrupt.run, "2").status == "waiting"
    told = Event.objects.get(run=interrupt.run, type="run.retagged")
    assert "ready" not in told.refs
    builders.decide(interrupt, builders.a_reviewer())
    assert len(builders.claim(interrupt.agent, code_version="2", code_versions={"2"})) == 1


def test_a_paused_run_stays_paused():
    run = a_stranded_run()
    control = {"run_id": run.public_id, "actor": PERSON, "reason": "", "check": lambda _: None}
    pause_run(**control)
    assert retag(run, "5").status == "paused"
    assert "ready" not in Event.objects.get(run=run, type="run.retagged").refs
    assert builders.claim(run.agent, code_version="5", code_versions={"5"}) == []
    assert resume_run(**control).status == "revalidating"


def test_a_run_in_a_worker_s_hands_keeps_its_version():
    started = builders.a_running_run(code_version="1")
    with pytest.raises(AlreadyClaimed):
        retag(started.run, "2")
    assert Run.objects.get().code_version == "1"


def test_a_lease_that_lapsed_is_none_though_no_sweep_ran():
    started = builders.a_running_run(code_version="1")
    builders.end_lease_now(started.run, clock.now() - timedelta(seconds=1))
    run = retag(started.run, "2")
    assert (run.status, run.code_version) == ("ready", "2")


def test_an_ending_or_ended_run_cannot_be_retagged():
    started = builders.a_running_run(code_version="1")
    run = started.run
    control = {"run_id": run.public_id, "actor": PERSON, "reason": "", "check": lambda _: None}
    cancel_run(**control)
    with pytest.raises(RunCancelled):
        retag(run, "2")
    other = builders.a_running_run(code_version="1")
    complete_run(agent=run.agent, run_id=other.run.public_id, token=other.lease.token, result=None)
    with pytest.raises(RunFinished):
        retag(other.run, "2")
    with pytest.raises(NotFound):
        retag(Run(public_id="run_nothing"), "2")


def test_an_end_and_a_restart_make_it_past():
    run = a_stranded_run()
    cancel_run(run_id=run.public_id, actor=PERSON, reason="", check=lambda _: None)
    run.refresh_from_db()
    assert (run.status, run.handed_back) == ("cancelled", 0)
    ina = builders.a_person("ina@example.org", "operators")
    words = {"run_id": run.public_id, "person": ina, "reason": "again", "check": lambda _: None}
    run = restart_run(**words, checkpoint_number=0, keep_failed=True)
    assert (run.code_version, run.handed_back) == ("1", 0)
