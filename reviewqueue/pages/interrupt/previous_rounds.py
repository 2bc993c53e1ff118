"""Answers of earlier rounds: who gave them, what they said, and which changed fact overtook them.

Called by ``waits`` for the page of a later round and by ``receipts`` for the answer itself. Only what the reader may see.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import AbstractUser
from django.db.models import Q

from reviewqueue import permissions
from reviewqueue.pages import code_labels
from runs.models import Decision, Event, Fact, Interrupt
from runs.states import DecisionStatus, InterruptStatus

MOST_ROUNDS = 10
_OVERTAKING = ("review.renewed", "run.replanned")


@dataclass(frozen=True, kw_only=True)
class Earlier:
    """One answer that does not count any more. ``facts``: those whose change overtook it."""

    decision: Decision
    done: str
    facts: tuple[Fact, ...]
    is_taken_back: bool


def earlier_answers(interrupt: Interrupt, *, reader: AbstractUser) -> list[Earlier]:
    """Return the answers to this question's earlier rounds, the latest first."""
    if interrupt.round < 2:
        return []
    rounds = _rounds_before(interrupt, reader=reader)
    gone = Decision.objects.filter(
        interrupt__in=rounds, status__in=(DecisionStatus.OVERTAKEN, DecisionStatus.REVOKED)
    ).select_related("by", "interrupt")
    return [
        Earlier(
            decision=decision,
            done=code_labels.VERDICT_DONE.get(decision.verdict, "answered"),
            facts=tuple(overtaking_facts(decision)),
            is_taken_back=decision.status == DecisionStatus.REVOKED,
        )
        for decision in gone.order_by("-id")[:MOST_ROUNDS]
    ]


def _rounds_before(interrupt: Interrupt, *, reader: AbstractUser) -> list[int]:
    found = [interrupt.pk]
    before: Any = interrupt.renews_id
    while before and len(found) < MOST_ROUNDS:
        visible = permissions.visible_interrupts(reader).filter(pk=before).values_list("pk", "renews").first()
        if visible is None:
            break
        found.append(visible[0])
        before = visible[1]
    return found


def overtaking_facts(decision: Decision) -> list[Fact]:
    """Return the facts whose change overtook the answer; none where it was taken back or only amended."""
    interrupt = decision.interrupt
    told = Event.objects.filter(run=interrupt.run_id, type__in=_OVERTAKING, at__gte=decision.created_at).order_by("seq")
    named = next((event for event in told[:50] if interrupt.public_id in event.refs.get("interrupts", ())), None)
    if named is None or decision.status != DecisionStatus.OVERTAKEN:
        return []
    own = Q(interrupt=None) | Q(interrupt=interrupt)
    facts = Fact.objects.filter(own, checkpoint=interrupt.checkpoint_id, name__in=named.refs.get("facts", ()))
    return list(facts.order_by("id"))


def next_round(decision: Decision, *, reader: AbstractUser) -> Interrupt | None:
    """Return the wait that asks again after this answer was overtaken or taken back, if it has been asked already."""
    interrupt = decision.interrupt
    if interrupt.round > decision.round and interrupt.status == InterruptStatus.WAITING:
        return interrupt
    later = permissions.visible_interrupts(reader).filter(renews=interrupt).order_by("id").first()
    return later or (interrupt if interrupt.round > decision.round else None)
