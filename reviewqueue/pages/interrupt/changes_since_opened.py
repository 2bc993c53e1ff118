"""What an agent, or a vote with changes, made different since a person opened a wait: old and new of exactly what differs.

Called by ``drafting`` for the page and by ``outcomes`` for an answer that came too late for it. Only reads; what counts as
the same is digest equality.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString

from ledger import exact_json
from reviewqueue.text import times
from reviewqueue.text.json_diff_text import ShownDifference, shown_differences
from runs.models import Fact, Interrupt, Revision
from runs.revisions import revision_seen


@dataclass(frozen=True, kw_only=True)
class Amended:
    """The differences, and when the last was made. ``deadline``: where the time was cut."""

    since: int
    at: datetime
    places: tuple[ShownDifference, ...]
    deadline: SafeString | str = ""


def amended_since(interrupt: Interrupt, version: int, *, facts: list[Fact]) -> Amended | None:
    """Return what changed since a version; ``None`` where the wait shows what it showed then."""
    if not 0 < version < interrupt.state_version:
        return None
    seen = revision_seen(interrupt, version)
    if seen is None:
        return None
    own = [fact for fact in facts if fact.interrupt_id == interrupt.pk]
    places = shown_differences(_of_revision(seen), _of_wait(interrupt, own))
    deadline: SafeString | str = ""
    if seen.deadline != interrupt.deadline:
        deadline = format_html("{} is now {}", times.moment(seen.deadline), times.moment(interrupt.deadline))
    if not places and not deadline:
        return None
    last = Revision.objects.filter(interrupt=interrupt).order_by("-state_version").first()
    return Amended(since=version, at=(last or seen).replaced_at, places=tuple(places), deadline=deadline)


def _of_revision(seen: Revision) -> dict[str, Any]:
    facts = {str(fact["name"]): fact for fact in seen.facts}
    return _told(seen.title, seen.message, seen.proposal, facts)


def _of_wait(interrupt: Interrupt, facts: list[Fact]) -> dict[str, Any]:
    stated = {fact.name: {"name": fact.name, "value": fact.value, "on_change": fact.on_change} for fact in facts}
    return _told(interrupt.title, interrupt.message, interrupt.proposal, stated)


def _told(title: str, message: str, proposal: Any, facts: dict[str, Any]) -> dict[str, Any]:
    """Return what is compared, under the names that people read. An amended wait may lose its call or its facts."""
    bare = {name: {member: fact[member] for member in ("value", "on_change")} for name, fact in facts.items()}
    call = (
        exact_json.ABSENT
        if proposal is None
        else {name: proposal[name] for name in ("name", "arguments", "schema") if name in proposal}
    )
    told = {"title": title, "message": message, "call": call, "facts": bare}
    return {name: value for name, value in told.items() if value is not exact_json.ABSENT}
