"""What a changed fact does to the answers it was given under: the review is renewed, or the agent plans again.

Called by ``checking`` under the run's lock, for facts that this server checked and for those a worker reported. An
answer that was overtaken is kept as evidence and reaches the agent as ``overtaken``, never as an answer. Nothing is
fetched or compared here.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ledger import effect_queries
from ledger.transactions import assert_open
from runs.continuations import make_continuation, told_of, void_continuation
from runs.decisions import accepted_decisions
from runs.external_signals import give_back_signals
from runs.interrupts import free_keys, reopen_interrupt, siblings_of
from runs.locks import lock_interrupts
from runs.models import Checkpoint, Continuation, Fact, Interrupt, Run
from runs.permits import void_permits
from runs.states import Cause, InterruptStatus, Kind, OnChange, RunStatus
from runs.timeline import note
from runs.use_cases.end_run import end_run

#: Why a continuation was voided; an effect asked for under its lease is told so (``facts_changed``).
FACT_CHANGED = "a fact changed"


@dataclass(frozen=True, kw_only=True)
class Overtaken:
    """Which answers the changed facts overtake, and how: ``renew`` asks the same again, ``replan`` is the agent's."""

    how: str
    waits: list[Interrupt]
    facts: list[Fact]


def find_overtaken(run: Run, checkpoint: Checkpoint, changed: list[Fact]) -> Overtaken | None:
    """Return what the changed facts of a boundary overtake there; ``None`` where no answer rests on them.

    A fact of the checkpoint touches every answer of the boundary, one of an interrupt its own only. An agent that has
    to plan again will ask again itself, so ``replan`` goes before ``renew``; and where the deadline gave the answer,
    there is no review to renew.
    """
    assert_open()
    answered = answered_at(run, checkpoint)
    for how in (OnChange.REPLAN, OnChange.RENEW):
        facts = [fact for fact in changed if fact.on_change == how]
        waits = _touched(answered, facts)
        if not waits:
            continue
        by_deadline = any(wait.status != InterruptStatus.ANSWERED for wait in waits)
        return Overtaken(how=OnChange.REPLAN if by_deadline else how, waits=waits, facts=facts)
    return None


def overtake(
    run: Run, checkpoint: Checkpoint, what: Overtaken, *, of: Continuation | None, actor: str, now: datetime
) -> None:
    """Overtake the answers. After ``max_rounds`` the run ends: a world that changes with every answer needs a person."""
    assert_open()
    if any(wait.round >= wait.policy.max_rounds for wait in what.waits):
        end_run(run, RunStatus.EXPIRED, reason="The review was renewed too often.", actor=actor, now=now)
    elif what.how == OnChange.RENEW:
        _ask_again(run, what, actor=actor, now=now)
    else:
        _plan_again(run, checkpoint, what, of=of, actor=actor, now=now)


def answered_at(run: Run, checkpoint: Checkpoint) -> list[Interrupt]:
    """Return the waits of this boundary whose answers stand, locked."""
    answered = [
        decision.interrupt_id
        for decision in accepted_decisions(run)
        if decision.interrupt.checkpoint_id == checkpoint.pk
        and not decision.interrupt.renewed
        and decision.interrupt.status in {InterruptStatus.ANSWERED, InterruptStatus.EXPIRED}
    ]
    return lock_interrupts(run, Interrupt.objects.select_related("policy").filter(pk__in=answered))


def _touched(answered: list[Interrupt], facts: list[Fact]) -> list[Interrupt]:
    if any(fact.interrupt_id is None for fact in facts):
        return answered
    own = {fact.interrupt_id for fact in facts}
    return [wait for wait in answered if wait.pk in own]


def _ask_again(run: Run, what: Overtaken, *, actor: str, now: datetime) -> None:
    """Straight back to review: the same question in the next round, and from now on what is shown there counts.

    What no person answered is no review: its signal comes again by itself, and a timer's moment stays what it was.
    """
    for wait in what.waits:
        moment = wait.deadline if wait.kind == Kind.TIMER else None
        reopen_interrupt(run, wait, verb="overtake", reason=FACT_CHANGED, now=now, deadline=moment)
    _give_back_signals(what, now=now)
    for fact in what.facts:
        fact.reviewed_value, fact.was_reviewed = fact.last_value, True
        fact.save(update_fields=["reviewed_value", "was_reviewed"])
    names, waits = _told(what)
    note(run, "review.renewed", actor=actor, at=now, facts=names, interrupts=waits)


def _plan_again(
    run: Run, checkpoint: Checkpoint, what: Overtaken, *, of: Continuation | None, actor: str, now: datetime
) -> None:
    """Back to the agent, with the old answers as evidence and what changed; it may ask again under the same keys.

    A wait that an overtaken answer had made needless is free to be asked again too. An effect that is still under way,
    or in doubt, is waited for here as before any other continuation.
    """
    free_keys([*what.waits, *(it for wait in what.waits for it in siblings_of(wait, InterruptStatus.SUPERSEDED))])
    _give_back_signals(what, now=now)
    for wait in what.waits:
        void_permits(run, reason=FACT_CHANGED, now=now, interrupt=wait)
    void_continuation(run, reason=FACT_CHANGED)
    to_check = run.open_holds > 0 or effect_queries.any_in_question(run.public_id)
    continuation = make_continuation(run, checkpoint.pk, cause=Cause.REPLAN, now=now, to_check=to_check, of=of)
    names, waits = _told(what)
    note(
        run,
        "run.replanned",
        actor=actor,
        at=now,
        facts=names,
        interrupts=waits,
        **told_of(continuation),
    )


def _give_back_signals(what: Overtaken, *, now: datetime) -> None:
    events = [wait.pk for wait in what.waits if wait.kind == Kind.EVENT]
    if events:
        give_back_signals(Interrupt.objects.filter(pk__in=events), now=now)


def _told(what: Overtaken) -> tuple[list[str], list[str]]:
    return [fact.name for fact in what.facts], [wait.public_id for wait in what.waits]
