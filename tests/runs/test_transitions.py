"""The product's transitions against the model: each one is a transition of the exhaustive table."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from ledger import clock, compensation
from ledger.effects import EffectDeclaration
from ledger.errors import Refusal
from ledger.exact_json import ABSENT
from ledger.models import Effect
from ledger.states import CompensateOn
from reviewqueue import permissions, resume_gateway
from reviewqueue.operations.doctor.records import find_changed_records
from runs.checkpoints import Snapshot
from runs.decisions import Answer
from runs.leases import is_compensating
from runs.models import Continuation, HandBack, Hold, Interrupt, Run
from runs.run_status import compute_status, is_claimable
from runs.timeline import find_broken_event
from runs.use_cases import expire
from runs.use_cases.claim_continuation import ClaimRequest, claim_continuations
from runs.use_cases.commit_checkpoint import commit_checkpoint
from runs.use_cases.complete_run import complete_run, fail_run
from runs.use_cases.control_run import cancel_run, pause_run, restart_run, resume_run, retag_run
from runs.use_cases.reconcile_outcomes import resolve_unknown_outcome, retry_held_run, waive_compensation
from runs.use_cases.release_lease import hand_back_run
from runs.use_cases.report_effect import report_effect
from tests import builders
from tests.runs.model import COMPENSATING, WORKER, State, explore

pytestmark = pytest.mark.django_db


def state_of(run: Run) -> State:
    stranded = Hold.objects.filter(run=run, kind="stranded", lifted_at=None).count()
    return State(
        ended_at=run.ended_at is not None,
        ending=run.ending,
        lease=(COMPENSATING if is_compensating(run) else WORKER) if run.lease_until else 0,
        pause_asked_at=run.pause_asked_at is not None,
        held=min(run.open_holds - stranded, 1),
        stranded=bool(stranded),
        open_continuation=run.open_continuation,
        open_waits=run.open_waits,
        to_compensate=bool(compensation.list_due_compensations(run.public_id, on=run.ending_on or "cancel")),
    )


class Walk:
    """One run, walked by random verbs; each call of ``step`` is one transaction of the product."""

    def __init__(self, seed: int, verbs: list[Callable[[Walk], None]]) -> None:
        self.verbs = verbs
        self.choose = random.Random(seed)
        self.ana = builders.a_reviewer()
        self.agent = builders.an_agent()
        self.started = builders.a_running_run(self.agent, key=f"walk-{seed}")
        self.token = self.started.lease.token
        self.waits = 0
        self.acts = 0
        self.owner = builders.a_person("olga@example.org", "agent-owners")

    def run(self) -> Run:
        return Run.objects.get(pk=self.started.run.pk)

    def suspend(self) -> None:
        self.waits += 1
        do = self.choose.choice(["cancel", "fail", "resume"])
        wait = builders.a_wait(f"wait-{self.waits}", wish={"on_expiry": {"do": do}})
        builders.suspend_by(self.run(), self.token, wait)

    def answer(self) -> None:
        interrupt = Interrupt.objects.filter(run=self.run(), status="waiting").first()
        if interrupt is not None:
            resume_gateway.submit_decision(
                responder=self.ana,
                interrupt_id=interrupt.public_id,
                answer=Answer(verdict="approve", input=ABSENT),
                seen=resume_gateway.ShownVersion(state_version=interrupt.state_version),
                door="api",
            )

    def claim(self, code_version: str = "") -> None:
        claimed = claim_continuations(
            ClaimRequest(
                agent=self.agent,
                code_version=code_version,
                code_versions={*self.VERSIONS},
                lease_seconds=60,
                still_may_decide=permissions.still_may_decide,
            ),
            limit=1,
        )
        if claimed:
            self.token = claimed[0].lease.token

    def checkpoint(self) -> None:
        run = self.run()
        commit_checkpoint(
            agent=self.agent,
            run_id=run.public_id,
            token=self.token,
            after=run.checkpoint_number,
            snapshot=Snapshot(step="step", state=None),
            facts=[],
        )

    def hand_back(self) -> None:
        hand_back_run(agent=self.agent, run_id=self.run().public_id, token=self.token, reason="retry", detail="")

    def claim_by_some_version(self) -> None:
        self.claim(self.choose.choice(self.VERSIONS))

    def hand_back_unread(self) -> None:
        run_id = self.run().public_id
        hand_back_run(agent=self.agent, run_id=run_id, token=self.token, reason="incompatible", detail="")

    def retag(self) -> None:
        self.control(retag_run, code_version=self.choose.choice(self.VERSIONS))

    def let_any_version_try(self) -> None:
        hold = Hold.objects.filter(run=self.run(), kind="stranded", lifted_at=None).first()
        if hold is not None:
            retry_held_run(hold_id=hold.pk, person=self.owner, reason="looked")

    def lease_lapses(self) -> None:
        Run.objects.filter(pk=self.run().pk, lease_until__isnull=False).update(lease_until=clock.now())
        expire.release_lapsed_leases(limit=10)

    def wait_expires(self) -> None:
        Interrupt.objects.filter(run=self.run()).update(deadline=clock.now())
        expire.expire_due_interrupts(limit=10)

    def run_expires(self) -> None:
        Run.objects.filter(pk=self.run().pk, lease_until=None).update(expires_at=clock.now() - timedelta(seconds=1))
        expire.expire_due_runs(limit=10)

    def complete(self) -> None:
        complete_run(agent=self.agent, run_id=self.run().public_id, token=self.token, result=None)

    def fail(self) -> None:
        fail_run(agent=self.agent, run_id=self.run().public_id, token=self.token, error={"why": "it broke"})

    def act(self, status: str = "applied", **reported: bool) -> None:
        """Begin an effect that can be compensated, and report its outcome."""
        self.acts += 1
        run, key = self.run(), f"act-{self.acts}"
        declared = EffectDeclaration(
            compensation={"name": "undo_it", "arguments": key}, compensate_on=tuple(CompensateOn.values)
        )
        fields = {"agent": self.agent, "run_id": run.public_id, "key": key}
        begun = builders.begin_effect(
            still_may_decide=permissions.still_may_decide,
            **fields,
            token=self.token,
            name="do_it",
            arguments=key,
            declared=declared,
        )
        report_effect(**fields, attempt_token=begun.attempt_token, status=status, **reported)

    def act_unsure(self) -> None:
        self.act("unknown")

    def undo(self, status: str = "applied") -> None:
        """Compensate the newest effect, as a compensating worker does."""
        run = self.run()
        due = compensation.list_due_compensations(run.public_id, on=run.ending_on)
        if due:
            fields = {"agent": self.agent, "run_id": run.public_id, "key": compensation.compensation_key(due[0])}
            begun = builders.begin_effect(
                still_may_decide=permissions.still_may_decide, **fields, token=self.token, name="undo_it"
            )
            if begun.perform:
                report_effect(**fields, attempt_token=begun.attempt_token, status=status)

    def undo_fails(self) -> None:
        self.undo(self.choose.choice(["failed", "unknown"]))

    def settle(self) -> None:
        effect = Effect.objects.filter(scope=self.run().public_id, status="unknown").first()
        if effect is not None:
            outcome = self.choose.choice(["applied", "failed"])
            resolve_unknown_outcome(effect_id=effect.pk, outcome=outcome, person=self.owner, reason="looked")

    def let_it_stay(self) -> None:
        hold = Hold.objects.filter(run=self.run(), kind="undo_failed", lifted_at=None).first()
        if hold is not None:
            verb = self.choose.choice([waive_compensation, retry_held_run])
            verb(hold_id=hold.pk, person=self.owner, reason="looked")

    def retry(self) -> None:
        hold = Hold.objects.filter(run=self.run(), kind="gave_up", lifted_at=None).first()
        if hold is not None:
            retry_held_run(hold_id=hold.pk, person=self.owner, reason="looked")

    def control(self, verb: Callable[..., Run], **more: str) -> None:
        verb(run_id=self.run().public_id, actor="person:ana@example.org", reason="", check=lambda run: None, **more)

    def cancel(self) -> None:
        self.control(cancel_run)

    def pause(self) -> None:
        self.control(pause_run)

    def resume(self) -> None:
        self.control(resume_run)

    def restart(self) -> None:
        run = self.run()
        restart_run(run_id=run.public_id, person=self.ana, reason="", check=lambda run: None, keep_failed=True)

    def checked(self) -> None:
        for continuation in Continuation.objects.filter(run=self.run(), status="checking"):
            Continuation.objects.filter(pk=continuation.pk).update(check_due_at=clock.now())
            builders.check(continuation.public_id)

    VERBS = [
        suspend,
        suspend,
        answer,
        answer,
        claim,
        claim,
        checkpoint,
        hand_back,
        lease_lapses,
        wait_expires,
        run_expires,
        complete,
        fail,
    ]
    #: The same, and what ends a run that has acted.
    ENDING = [
        *VERBS,
        claim,
        claim,
        act,
        act,
        act_unsure,
        undo,
        undo,
        undo,
        undo_fails,
        settle,
        settle,
        let_it_stay,
        let_it_stay,
        retry,
        cancel,
        pause,
        resume,
        restart,
        checked,
    ]

    #: Several versions of the code come, and most cannot read what they claim.
    VERSIONS = ("1", "2", "3", "4")
    UNREAD = [
        *[claim_by_some_version] * 10,
        *[hand_back_unread] * 8,
        hand_back,
        retag,
        let_any_version_try,
        lease_lapses,
        suspend,
        answer,
        answer,
        checkpoint,
        act,
        pause,
        resume,
        resume,
        checked,
        checked,
        cancel,
        restart,
        undo,
    ]

    def step(self) -> str:
        verb = self.choose.choice(self.verbs)
        try:
            verb(self)
        except Refusal as refused:
            return f"{verb.__name__}: {refused.code}"
        return verb.__name__


@pytest.mark.parametrize("seed", range(12))
def test_every_move_of_the_real_verbs_is_in_the_table(seed):
    walk_along_the_table(Walk(seed, Walk.VERBS), steps=30)


@pytest.mark.parametrize("seed", range(100, 124))
def test_every_move_of_an_end_that_compensates_is_in_the_table(seed):
    walk_along_the_table(Walk(seed, Walk.ENDING), steps=60)


@pytest.mark.parametrize("seed", range(200, 208))
def test_every_move_of_versions_that_cannot_read_it_is_in_the_table(seed):
    walk_along_the_table(Walk(seed, Walk.UNREAD), steps=60)


def walk_along_the_table(walk: Walk, *, steps: int) -> None:
    reached = explore()
    edges = {(state, to) for state, moves in reached.items() for _, to in moves}
    # The table has one status for an end by deadline; `do: fail` ends by the same transitions with another.
    edges |= {(state, replace(to, ending="failed")) for state, to in edges if to.ending == "expired"}
    edges |= {
        (replace(state, ending="failed"), replace(to, ending="failed"))
        for state, to in edges
        if state.ending == "expired"
    }
    # One verb can be two transitions of the table: an end without open effects finishes in its own transaction, and a
    # continuation with nothing to check is ready in the transaction that made it.
    edges |= {(first, last) for first, middle in edges for middle_again, last in edges if middle == middle_again}
    before = state_of(walk.run())
    assert before in reached
    for _ in range(steps):
        verb = walk.step()
        run = walk.run()
        after = state_of(run)
        assert run.status == compute_status(run), verb
        assert after in reached, verb
        assert after == before or (before, after) in edges, f"{verb}: {before} -> {after}"
        assert (run.ready_since is not None) == is_claimable(after), verb
        assert run.handed_back == HandBack.objects.filter(run=run, over_at=None).count(), verb
        assert run.expires_at or run.lease_until or run.ended_at or run.ending, f"{verb}: no end"
        before = after
    assert find_broken_event(walk.run()) == ""
    assert find_changed_records(walk.run()) == ""
