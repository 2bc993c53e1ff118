"""RECONCILIATION of decisions that a changed fact overtakes: renew the review, or let the agent plan again.

Works under the run's lock, for facts that this server checked and for those that a worker reported. An overtaken
decision is kept as evidence and reaches the agent as ``overtaken``, never as an answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ledger import effect_queries
from ledger.transactions import assert_in_transaction
from runs.continuations import continuation_refs, make_continuation, void_continuation
from runs.decisions import list_accepted_decisions
from runs.external_signals import reuse_signals
from runs.interrupts import free_keys, lock_siblings, reopen_interrupt
from runs.locks import lock_interrupts
from runs.models import Checkpoint, Continuation, Fact, Interrupt, Run
from runs.permits import void_permits
from runs.states import Cause, InterruptStatus, Kind, OnChange, RunStatus
from runs.timeline import record_event
from runs.use_cases.end_run import end_run

#: Why a continuation was voided. ``begin_effect`` refuses effects under its lease with ``facts_changed``.
FACT_CHANGED = "a fact changed"


@dataclass(frozen=True, kw_only=True)
class Overtaken:
    """The interrupts whose decisions the changed facts overtake. ``how``: ``renew`` reopens them, ``replan`` returns to
    the agent.
    """

    how: str
    waits: list[Interrupt]
    facts: list[Fact]


def find_overtaken(run: Run, checkpoint: Checkpoint, changed: list[Fact]) -> Overtaken | None:
    """Return what the changed facts of a checkpoint overtake there; ``None`` if no decision depends on them.

    A fact of the checkpoint affects every decision made there, a fact of an interrupt only its own. ``replan`` precedes
    ``renew``, because an agent that plans again asks again itself. An answer given by the deadline has no review to
    renew.
    """
    assert_in_transaction()
    answered = lock_answered_interrupts(run, checkpoint)
    for how in (OnChange.REPLAN, OnChange.RENEW):
        facts = [fact for fact in changed if fact.on_change == how]
        waits = _affected(answered, facts)
        if not waits:
            continue
        by_deadline = any(wait.status != InterruptStatus.ANSWERED for wait in waits)
        return Overtaken(how=OnChange.REPLAN if by_deadline else how, waits=waits, facts=facts)
    return None


def overtake_decisions(
    run: Run, checkpoint: Checkpoint, overtaken: Overtaken, *, of: Continuation | None, actor: str, now: datetime
) -> None:
    """Overtake the decisions. After ``max_rounds`` the run ends, because its facts change with every decision."""
    assert_in_transaction()
    if any(wait.round >= wait.policy.max_rounds for wait in overtaken.waits):
        end_run(
            run,
            RunStatus.EXPIRED,
            reason="The review was renewed more often than its policy allows.",
            actor=actor,
            now=now,
        )
    elif overtaken.how == OnChange.RENEW:
        _renew_reviews(run, overtaken, actor=actor, now=now)
    else:
        _return_to_agent(run, checkpoint, overtaken, of=of, actor=actor, now=now)


def lock_answered_interrupts(run: Run, checkpoint: Checkpoint) -> list[Interrupt]:
    """Return the interrupts of this checkpoint whose decisions are in force, locked."""
    answered = [
        decision.interrupt_id
        for decision in list_accepted_decisions(run)
        if decision.interrupt.checkpoint_id == checkpoint.pk
        and not decision.interrupt.renewed
        and decision.interrupt.status in {InterruptStatus.ANSWERED, InterruptStatus.EXPIRED}
    ]
    return lock_interrupts(run, Interrupt.objects.select_related("policy").filter(pk__in=answered))


def _affected(answered: list[Interrupt], facts: list[Fact]) -> list[Interrupt]:
    if any(fact.interrupt_id is None for fact in facts):
        return answered
    own = {fact.interrupt_id for fact in facts}
    return [wait for wait in answered if wait.pk in own]


def _renew_reviews(run: Run, overtaken: Overtaken, *, actor: str, now: datetime) -> None:
    """Reopen the reviews: the same request in the next round, whose facts are the basis from now on.

    Interrupts that no person answered have no review: a signal is matched again, and a timer keeps its time.
    """
    for wait in overtaken.waits:
        deadline = wait.deadline if wait.kind == Kind.TIMER else None
        reopen_interrupt(run, wait, verb="overtake", reason=FACT_CHANGED, now=now, deadline=deadline)
    _give_back_signals(overtaken, now=now)
    for fact in overtaken.facts:
        fact.reviewed_value, fact.was_reviewed = fact.last_value, True
        fact.save(update_fields=["reviewed_value", "was_reviewed"])
    names, waits = _names_and_ids(overtaken)
    record_event(run, "review.renewed", actor=actor, at=now, facts=names, interrupts=waits)


def _return_to_agent(
    run: Run, checkpoint: Checkpoint, overtaken: Overtaken, *, of: Continuation | None, actor: str, now: datetime
) -> None:
    """Return the run to the agent with the overtaken decisions and the changes; it can ask again under the same keys.

    An interrupt that an overtaken decision had superseded can be asked again too. An effect under way, or with an
    unknown outcome, is awaited as before any other continuation.
    """
    free_keys(
        [*overtaken.waits, *(it for wait in overtaken.waits for it in lock_siblings(wait, InterruptStatus.SUPERSEDED))]
    )
    _give_back_signals(overtaken, now=now)
    for wait in overtaken.waits:
        void_permits(run, reason=FACT_CHANGED, now=now, interrupt=wait)
    void_continuation(run, reason=FACT_CHANGED)
    to_check = run.open_holds > 0 or effect_queries.any_unresolved_effect(run.public_id)
    continuation = make_continuation(run, checkpoint.pk, cause=Cause.REPLAN, now=now, to_check=to_check, of=of)
    names, waits = _names_and_ids(overtaken)
    record_event(
        run,
        "run.replanned",
        actor=actor,
        at=now,
        facts=names,
        interrupts=waits,
        **continuation_refs(continuation),
    )


def _give_back_signals(overtaken: Overtaken, *, now: datetime) -> None:
    events = [wait.pk for wait in overtaken.waits if wait.kind == Kind.EVENT]
    if events:
        reuse_signals(Interrupt.objects.filter(pk__in=events), now=now)


def _names_and_ids(overtaken: Overtaken) -> tuple[list[str], list[str]]:
    return [fact.name for fact in overtaken.facts], [wait.public_id for wait in overtaken.waits]
