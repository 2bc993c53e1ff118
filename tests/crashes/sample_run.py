"""The run that kills interrupt: a reviewer decides, a task revalidates, a worker continues, orders once, and completes.

`live` runs from the decision to the end in one process, from whatever state the run is in. `recover` follows a kill:
the reviewer repeats the decision, the lost lease ends, tasks or sweeps run, the owner resolves unknown outcomes, and a
new worker completes the run. Every call goes through its module, so that `kill_points` can patch it.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib.auth.models import User
from django_q.models import OrmQ
from django_q.signing import SignedPackage

from ledger import clock
from ledger.models import Effect
from reviewqueue import permissions, resume_gateway, tasks
from runs.checkpoints import Snapshot
from runs.decisions import Answer
from runs.facts import RequestedFact
from runs.models import Agent, Connection, Interrupt, Run
from runs.use_cases import (
    claim_continuation,
    commit_checkpoint,
    complete_run,
    reconcile_outcomes,
    report_effect,
)
from tests import builders
from tests.crashes.receiver import SPECIFICATION, Receiver

CALL = builders.CALL


@dataclass(frozen=True, kw_only=True)
class SampleRun:
    """The people, the agent and the interrupt of the sample run."""

    agent: Agent
    reviewer: User
    owner: User
    interrupt: Interrupt
    receiver: Receiver

    @property
    def run(self) -> Run:
        return Run.objects.select_related("agent").get(pk=self.interrupt.run_id)

    @property
    def key(self) -> str:
        return f"order:{self.interrupt.public_id}"


def begin(receiver: Receiver) -> SampleRun:
    """Create a run that waits for an approval, with a fact that is revalidated at the receiver's address."""
    agent, reviewer = builders.an_agent(), builders.a_reviewer()
    Connection.objects.get_or_create(agent=agent, name="erp", defaults={"base_url": receiver.address})
    Connection.objects.filter(agent=agent).update(base_url=receiver.address)
    builders.a_rule(agent=agent)
    checked = {"check_by": "connection", "connection": "erp", "path": "/pr/4711", "pointer": "/specification"}
    fact = RequestedFact(name="specification", value=SPECIFICATION, **checked)
    return SampleRun(
        agent=agent,
        reviewer=reviewer,
        owner=builders.a_person("owner@example.org", "agent-owners"),
        interrupt=builders.a_waiting_interrupt(builders.a_wait(facts=[fact])),
        receiver=receiver,
    )


# --- what a process does until it is killed ---------------------------------------------------------------------------


def live(story: SampleRun) -> None:
    """Everything from the decision to the end, in this process."""
    answer(story)
    run_tasks()
    go_on(story)


def answer(story: SampleRun) -> None:
    """Decide; a repeated call uses the same key."""
    resume_gateway.submit_decision(
        responder=story.reviewer,
        interrupt_id=story.interrupt.public_id,
        answer=Answer(verdict="approve"),
        seen=resume_gateway.ShownVersion(state_version=1),
        door="api",
        request_key="the-answer",
    )


def run_tasks() -> None:
    """Do what a cluster does: take a row, run its task, and delete the row only afterwards."""
    for row in OrmQ.objects.order_by("id"):
        task = SignedPackage.loads(row.payload)
        assert task["func"] == "reviewqueue.tasks.check_continuation"
        tasks.check_continuation(*task["args"])
        row.delete()


def go_on(story: SampleRun) -> bool:
    """Claim the run, order once, commit a checkpoint, complete. Returns False if there was nothing to claim."""
    claimed = claim_continuation.claim_continuations(
        claim_continuation.ClaimRequest(
            agent=story.agent, code_versions=set(), lease_seconds=60, still_may_decide=permissions.still_may_decide
        ),
        limit=1,
    )
    if not claimed:
        return False
    lease, after = claimed[0].lease.token, claimed[0].checkpoint.number
    if after == 1:
        order_once(story, lease)
        snapshot = Snapshot(step="ordered", state={"ordered": True})
        commit_checkpoint.commit_checkpoint(
            agent=story.agent, run_id=story.run.public_id, token=lease, after=1, snapshot=snapshot, facts=[]
        )
    complete_run.complete_run(agent=story.agent, run_id=story.run.public_id, token=lease, result={"ordered": True})
    return True


def order_once(story: SampleRun, lease: str) -> None:
    begun = builders.begin_effect(
        still_may_decide=permissions.still_may_decide,
        agent=story.agent,
        run_id=story.run.public_id,
        token=lease,
        key=story.key,
        name=CALL["name"],
        arguments=CALL["arguments"],
    )
    if begun.perform:
        receipt = send(story)
        assert begun.attempt_token is not None
        report_effect.report_effect(
            agent=story.agent,
            run_id=story.run.public_id,
            key=story.key,
            attempt_token=begun.attempt_token,
            status="applied",
            receipt=receipt,
        )


def send(story: SampleRun) -> str:
    return story.receiver.order(story.key)


# --- what happens after a kill ----------------------------------------------------------------------------------------


def lose_the_worker(story: SampleRun) -> None:
    """Let the lease of the killed process lapse and its check time out: tests move deadlines, not clocks."""
    if story.run.lease_until is not None:
        builders.end_lease_now(story.run, clock.now())
    story.run.continuations.filter(status="checking").update(check_due_at=clock.now())


def recover(story: SampleRun, *, by_tasks: bool) -> int:
    """Complete the run after a kill; returns how many unknown effects the owner resolved.

    ``by_tasks``: remaining tasks run before any sweep; otherwise only the sweep finds what is due.
    """
    answer(story)
    lose_the_worker(story)
    if by_tasks:
        run_tasks()
    tasks.sweep()
    settled = settle_unknown(story)
    if settled:
        tasks.sweep()
    go_on(story)
    return settled


def settle_unknown(story: SampleRun) -> int:
    """Resolve as the owner, who asks the receiver: the order arrived, or it is ordered again."""
    unknown = Effect.objects.filter(scope=story.run.public_id, status="unknown")
    for effect in unknown:
        if story.receiver.arrived(story.key):
            words = {"outcome": "applied", "reason": "The receiver has the order."}
            reconcile_outcomes.resolve_unknown_outcome(effect_id=effect.pk, person=story.owner, **words)
        else:
            reconcile_outcomes.order_effect_again(
                effect_id=effect.pk, person=story.owner, reason="The receiver has no order."
            )
    return len(unknown)
