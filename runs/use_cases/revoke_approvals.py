"""Revoke approvals and answers when a person behind them loses the permission to decide.

The claim checks every answer that the run is about to continue on, and the begin of an effect checks every decision
behind its permit, both under the run's lock. A lost answer of the newest boundary is asked again in a new round. An
older request cannot be reopened, because the run is past it: its permit is void, its key is free, and the agent must
ask again.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from ledger import effect_queries
from ledger.effect_queries import EffectsForClaim
from ledger.errors import Refusal
from ledger.states import EffectStatus
from ledger.transactions import assert_in_transaction
from runs.child_runs import is_queue_allowed
from runs.decisions import ClaimedDecisions, any_effect_begun_on_answers, move_decisions
from runs.errors import ApprovalLost
from runs.interrupts import free_keys, lock_siblings, reopen_interrupt
from runs.leases import end_lease
from runs.locks import lock_interrupts
from runs.models import Decision, Interrupt, Run
from runs.permits import void_permits
from runs.revocation import AUTHORITY_LOST, LostApproval, StillMayDecide, revoked_approval_refusal
from runs.states import InterruptStatus, RunStatus
from runs.timeline import record_event
from runs.use_cases.end_run import end_run

SYSTEM = "system:authority"
#: Statuses of an effect whose permit is used up.
DONE = frozenset({EffectStatus.APPLIED, EffectStatus.COMPENSATED})


# --- at the begin of an effect ----------------------------------------------------------------------------------------


def refuse_lost_approval(run: Run, lost: LostApproval, *, now: datetime) -> Refusal:
    """Void the approval under the run's lock, and return the refusal for the worker whose effect it was to allow.

    ``ApprovalLost``: the request is open again and the lease has ended, as after a changed fact. ``ApprovalRequired``:
    the lease continues and the agent must ask again, since the run is past the request, or an effect was begun on its
    answer.
    """
    assert_in_transaction()
    [interrupt] = _locked(run, [lost.interrupt.pk])
    reason = interrupt.reason
    is_newest = _is_at_the_newest_boundary(run, interrupt)
    if is_newest and is_queue_allowed(interrupt, interrupt.queue) and not any_effect_begun_on_answers(run, [interrupt]):
        end_lease(run)
        run.fence += 1
        _ask_again(run, interrupt, lost.decisions, now=now)
        return ApprovalLost(interrupt=interrupt.public_id, reason=reason)
    _retire(run, interrupt, lost.decisions, now=now)
    return revoked_approval_refusal(reason)


def _is_at_the_newest_boundary(run: Run, interrupt: Interrupt) -> bool:
    return (
        interrupt.status == InterruptStatus.ANSWERED
        and not interrupt.renewed
        and interrupt.epoch == run.epoch
        and interrupt.checkpoint.number == run.checkpoint_number
    )


# --- at the claim -----------------------------------------------------------------------------------------------------


def revoke_lost_answers(
    run: Run,
    said: ClaimedDecisions,
    *,
    checkpoint_id: int,
    consulted: EffectsForClaim,
    still_may_decide: StillMayDecide,
    now: datetime,
) -> tuple[bool, ClaimedDecisions]:
    """Check the answers that a claim continues on: those of its boundary, and older ones that can still allow an effect.

    Returns whether a request was reopened, in which case nothing can be leased, and what remains of ``said``. Answers
    of the boundary on which an effect was begun count as older ones. A request in a queue that the policy no longer
    allows is not reopened: the agent must ask again in a queue that is allowed.
    """
    allowing = _still_allowing(said, consulted, now=now)
    acted_on = _acted_on(run, said, consulted)
    lost: dict[int, list[Decision]] = {}

    def may_be_reopened(interrupt: Interrupt) -> bool:
        return interrupt.pk not in acted_on and _is_answered_at(interrupt, checkpoint_id)

    for decision in [*said.accepted, *said.votes]:
        interrupt = decision.interrupt
        judged = interrupt.pk in allowing or (decision.by_id is not None and may_be_reopened(interrupt))
        if judged and not still_may_decide(decision):
            lost.setdefault(interrupt.pk, []).append(decision)
    if not lost:
        return False, said
    reopened = False
    for interrupt in _locked(run, lost):
        if run.ending:
            break
        if may_be_reopened(interrupt) and is_queue_allowed(interrupt, interrupt.queue):
            _ask_again(run, interrupt, lost[interrupt.pk], now=now)
            reopened = True
        else:
            _retire(run, interrupt, lost[interrupt.pk], now=now)
    return reopened, said.without(set(lost))


def _is_answered_at(interrupt: Interrupt, checkpoint_id: int) -> bool:
    is_answered = interrupt.status == InterruptStatus.ANSWERED and not interrupt.renewed
    return is_answered and interrupt.checkpoint_id == checkpoint_id


def _acted_on(run: Run, said: ClaimedDecisions, consulted: EffectsForClaim) -> set[int]:
    """Return the interrupts on whose delivered answer an effect was begun that did not fail."""
    decisions = [*said.accepted, *said.votes]
    return {
        decision.interrupt_id
        for decision in decisions
        if decision.delivered_at is not None
        and effect_queries.any_effect_begun_since(run.public_id, decision.delivered_at, consulted=consulted)
    }


def _still_allowing(said: ClaimedDecisions, consulted: EffectsForClaim, *, now: datetime) -> set[int]:
    """Return the interrupts whose permit can still allow an effect: not void, not expired, not used up."""
    good = [permit for permit in said.permits if permit.valid_until > now]
    spent = (
        effect_queries.find_used_permits(consulted, [permit.public_id for permit in good], statuses=DONE)
        if good
        else set()
    )
    return {permit.decision.interrupt_id for permit in good if permit.public_id not in spent}


# --- both -------------------------------------------------------------------------------------------------------------


def _locked(run: Run, interrupt_pks: Iterable[int]) -> list[Interrupt]:
    interrupts = Interrupt.objects.filter(pk__in=list(interrupt_pks)).select_related("policy", "checkpoint", "queue")
    return lock_interrupts(run, interrupts.defer("checkpoint__state"))


def _ask_again(run: Run, interrupt: Interrupt, lost: list[Decision], *, now: datetime) -> None:
    """Open the same request in a new round; after ``max_rounds`` the run ends."""
    if interrupt.round >= interrupt.policy.max_rounds:
        end_run(run, RunStatus.EXPIRED, reason="The review was renewed too often.", actor=SYSTEM, now=now)
        return
    reopen_interrupt(run, interrupt, verb="revoke", reason=AUTHORITY_LOST, now=now, only=lost)
    _record_lost(run, "resume.denied", interrupt, lost, now=now)


def _retire(run: Run, interrupt: Interrupt, lost: list[Decision], *, now: datetime) -> None:
    """Void an approval whose request cannot be reopened, and free its key, so that the agent can ask again."""
    move_decisions(interrupt, "revoke", only=lost)
    free_keys([interrupt, *lock_siblings(interrupt, InterruptStatus.SUPERSEDED)])
    void_permits(run, reason=AUTHORITY_LOST, now=now, interrupt=interrupt)
    _record_lost(run, "approval.revoked", interrupt, lost, now=now)


def _record_lost(run: Run, move: str, interrupt: Interrupt, lost: list[Decision], *, now: datetime) -> None:
    ids = [decision.public_id for decision in lost]
    record_event(run, move, actor=SYSTEM, at=now, decision=ids[0], decisions=ids, interrupt=interrupt.public_id)
