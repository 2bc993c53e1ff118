"""Revisions: what an interrupt showed before it was amended. A revision is written once.

Also the call that an answer approves: the proposed one with the reviewer's edits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ledger import clock
from ledger.json_diff import MAX_DIFFERENCES, Difference, diff_json
from ledger.transactions import assert_in_transaction
from runs.models import Decision, Fact, Interrupt, Revision
from runs.states import APPROVING, Verdict


def store_revision(interrupt: Interrupt) -> Revision:
    """Store what the locked interrupt shows, before it changes."""
    assert_in_transaction()
    facts = Fact.objects.filter(interrupt=interrupt).order_by("id")
    return Revision.objects.create(
        interrupt=interrupt,
        state_version=interrupt.state_version,
        title=interrupt.title,
        message=interrupt.message,
        proposal=interrupt.proposal,
        facts=[{"name": fact.name, "value": fact.value, "on_change": fact.on_change} for fact in facts],
        deadline=interrupt.deadline,
        replaced_at=clock.now(),
    )


def find_revision_shown(interrupt: Interrupt, state_version: int) -> Revision | None:
    """Return what the interrupt showed at a version, or ``None`` if it shows the same now.

    A new round raises the version without a revision, so the next stored revision is what was shown.
    """
    later = Revision.objects.filter(interrupt=interrupt, state_version__gte=state_version)
    return later.order_by("state_version").first()


@dataclass(frozen=True, kw_only=True)
class EffectiveAnswer:
    """The effective answer: its verdict, the arguments approved instead of the proposed ones, and the differences."""

    verdict: str
    arguments: Any
    changed: list[Difference] = field(default_factory=list)


def effective_answer(decision: Decision) -> EffectiveAnswer:
    """Return the effective answer for the agent.

    If one of several voters edited the call and the others approved the edit, it is an edit, also if the last voter
    only approved.
    """
    wait, verdict = decision.interrupt, decision.verdict
    if wait.as_proposed is not None and verdict in APPROVING:
        approved = wait.proposal["arguments"]
        return EffectiveAnswer(verdict=Verdict.EDIT, arguments=approved, changed=_changed(wait.as_proposed, approved))
    if verdict == Verdict.EDIT:
        seen = arguments_shown_at(wait, decision.state_version)
        changed = _changed({"arguments": seen}, decision.arguments)
        return EffectiveAnswer(verdict=verdict, arguments=decision.arguments, changed=changed)
    return EffectiveAnswer(verdict=verdict, arguments=decision.arguments)


def arguments_shown_at(wait: Interrupt, state_version: int) -> Any:
    """Return the proposed arguments that were shown at a version; ``None`` without a proposal."""
    shown = (find_revision_shown(wait, state_version) if wait.state_version > state_version else None) or wait
    return None if shown.proposal is None else shown.proposal["arguments"]


def _changed(proposal: dict[str, Any], approved: Any) -> list[Difference]:
    """Return the differences, or the whole value as one difference if there are too many to list."""
    found = diff_json(proposal["arguments"], approved, most=MAX_DIFFERENCES + 1)
    whole = Difference(path=(), old=proposal["arguments"], new=approved)
    return found if len(found) <= MAX_DIFFERENCES else [whole]
