"""What people changed in a call before they let it through: the agent's own proposal beside the approved one.

Read-only. Called by the API, which tells the agent, and by the pages, which tell people: both from here, so that they agree.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ledger.json_diff import MOST_DIFFERENCES, Difference, differences_between
from runs.models import Decision, Interrupt
from runs.revisions import revision_seen
from runs.states import APPROVING, Verdict


@dataclass(frozen=True, kw_only=True)
class Approved:
    """What an answer comes to: its verdict, the arguments that were approved instead of the agent's, and what differs."""

    verdict: str
    arguments: Any
    changed: list[Difference] = field(default_factory=list)


def what_was_approved(decision: Decision) -> Approved:
    """Return what an answer comes to for the agent that asked.

    Where one of several voters changed the call and the others approved that, it is an edit, whoever voted last.
    """
    wait, verdict = decision.interrupt, decision.verdict
    if wait.as_proposed is not None and verdict in APPROVING:
        approved = wait.proposal["arguments"]
        return Approved(verdict=Verdict.EDIT, arguments=approved, changed=_changed(wait.as_proposed, approved))
    if verdict == Verdict.EDIT:
        seen = arguments_seen(wait, decision.state_version)
        changed = _changed({"arguments": seen}, decision.arguments)
        return Approved(verdict=verdict, arguments=decision.arguments, changed=changed)
    return Approved(verdict=verdict, arguments=decision.arguments)


def arguments_seen(wait: Interrupt, state_version: int) -> Any:
    """Return the arguments that stood on the page at a version of the wait; ``None`` where no call was asked for."""
    shown = (revision_seen(wait, state_version) if wait.state_version > state_version else None) or wait
    return None if shown.proposal is None else shown.proposal["arguments"]


def _changed(proposal: dict[str, Any], approved: Any) -> list[Difference]:
    """Return the places that differ; the whole of both in one where they are too many to list."""
    found = differences_between(proposal["arguments"], approved, most=MOST_DIFFERENCES + 1)
    whole = Difference(path=(), old=proposal["arguments"], new=approved)
    return found if len(found) <= MOST_DIFFERENCES else [whole]
