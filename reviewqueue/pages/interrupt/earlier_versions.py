"""Earlier versions of a request: the decisions of its previous rounds, and what changed since a reviewer opened it.

Only what the reader can see is returned. Two values are the same if their digests are.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.auth.models import AbstractUser
from django.db.models import Q
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from reviewqueue import permissions
from reviewqueue.pages import code_labels
from reviewqueue.text import times
from reviewqueue.text.json_diff_text import DisplayedDifference, list_differences
from runs.models import Decision, Event, Fact, Interrupt, Revision
from runs.revisions import find_revision_shown
from runs.states import DecisionStatus, InterruptStatus

MAX_ROUNDS = 10
_OVERTAKING_EVENTS = ("review.renewed", "run.replanned")

# --- changes since the page was opened ----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ChangesSinceOpened:
    """Differences between the version ``since`` and the current one. ``at``: time of the last change. ``deadline``: text
    about a changed deadline, else empty.
    """

    since: int
    at: datetime
    differences: tuple[DisplayedDifference, ...]
    deadline: SafeString | str = ""


def changes_since_version(interrupt: Interrupt, version: int, *, facts: list[Fact]) -> ChangesSinceOpened | None:
    """Return the changes since a version; ``None`` where the page would show the same."""
    if not 0 < version < interrupt.state_version:
        return None
    seen = find_revision_shown(interrupt, version)
    if seen is None:
        return None
    own = [fact for fact in facts if fact.interrupt_id == interrupt.pk]
    differences = list_differences(_content_of_revision(seen), _content_of_interrupt(interrupt, own))
    deadline: SafeString | str = ""
    if seen.deadline != interrupt.deadline:
        deadline = format_html(
            _("{before} is now {after}"),
            before=times.datetime_element(seen.deadline),
            after=times.datetime_element(interrupt.deadline),
        )
    if not differences and not deadline:
        return None
    last = Revision.objects.filter(interrupt=interrupt).order_by("-state_version").first()
    return ChangesSinceOpened(
        since=version, at=(last or seen).replaced_at, differences=tuple(differences), deadline=deadline
    )


def _content_of_revision(seen: Revision) -> dict[str, Any]:
    facts = {str(fact["name"]): fact for fact in seen.facts}
    return _content(seen.title, seen.message, seen.proposal, facts)


def _content_of_interrupt(interrupt: Interrupt, facts: list[Fact]) -> dict[str, Any]:
    stated = {fact.name: {"name": fact.name, "value": fact.value, "on_change": fact.on_change} for fact in facts}
    return _content(interrupt.title, interrupt.message, interrupt.proposal, stated)


def _content(title: str, message: str, proposal: Any, facts: dict[str, Any]) -> dict[str, Any]:
    """Return what is compared, under the names that reviewers read. An amended request can lose its call or its facts."""
    bare = {name: {member: fact[member] for member in ("value", "on_change")} for name, fact in facts.items()}
    content: dict[str, Any] = {"title": title, "message": message, "facts": bare}
    if proposal is not None:
        call = {name: proposal[name] for name in ("name", "arguments", "schema") if name in proposal}
        content = {"title": title, "message": message, "call": call, "facts": bare}
    return content


# --- previous rounds ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class PreviousDecision:
    """A decision that no longer counts. ``facts``: the changed facts that overtook it."""

    decision: Decision
    done: str
    facts: tuple[Fact, ...]
    is_undone: bool


def previous_decisions(interrupt: Interrupt, *, reader: AbstractUser) -> list[PreviousDecision]:
    """Return the decisions of the previous rounds of a request, latest first."""
    if interrupt.round < 2:
        return []
    rounds = _previous_rounds(interrupt, reader=reader)
    overtaken = Decision.objects.filter(
        interrupt__in=rounds, status__in=(DecisionStatus.OVERTAKEN, DecisionStatus.REVOKED)
    ).select_related("by", "interrupt")
    return [
        PreviousDecision(
            decision=decision,
            done=code_labels.done_label(decision, decision.interrupt.kind),
            facts=tuple(overtaking_facts(decision)),
            is_undone=decision.status == DecisionStatus.REVOKED,
        )
        for decision in overtaken.order_by("-id")[:MAX_ROUNDS]
    ]


def _previous_rounds(interrupt: Interrupt, *, reader: AbstractUser) -> list[int]:
    found = [interrupt.pk]
    before: Any = interrupt.renews_id
    while before and len(found) < MAX_ROUNDS:
        visible = permissions.visible_interrupts(reader).filter(pk=before).values_list("pk", "renews").first()
        if visible is None:
            break
        found.append(visible[0])
        before = visible[1]
    return found


def overtaking_facts(decision: Decision) -> list[Fact]:
    """Return the changed facts that overtook a decision; empty if it was undone or only the request was amended."""
    interrupt = decision.interrupt
    later = Event.objects.filter(run=interrupt.run_id, type__in=_OVERTAKING_EVENTS, at__gte=decision.created_at)
    events = later.order_by("seq")[:50]
    overtaking = next((event for event in events if interrupt.public_id in event.refs.get("interrupts", ())), None)
    if overtaking is None or decision.status != DecisionStatus.OVERTAKEN:
        return []
    visible = Q(interrupt=None) | Q(interrupt=interrupt)
    names = overtaking.refs.get("facts", ())
    return list(Fact.objects.filter(visible, checkpoint=interrupt.checkpoint_id, name__in=names).order_by("id"))


def next_round(decision: Decision, *, reader: AbstractUser) -> Interrupt | None:
    """Return the request of the next round after a decision was overtaken or undone, if it is open already."""
    interrupt = decision.interrupt
    if interrupt.round > decision.round and interrupt.status == InterruptStatus.WAITING:
        return interrupt
    later = permissions.visible_interrupts(reader).filter(renews=interrupt).order_by("id").first()
    return later or (interrupt if interrupt.round > decision.round else None)
