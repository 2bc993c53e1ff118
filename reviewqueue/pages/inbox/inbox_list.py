"""The template context of the inbox: rows grouped by risk, the links to views and queues, the filters.

A row's title is generated from the stored call. The title that the agent wrote follows as a quotation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.models import AbstractUser
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from reviewqueue.pages import code_labels
from reviewqueue.pages.call_labels import Labels, describe_call, labels_of, request_heading_for_row
from reviewqueue.pages.inbox.bulk_eligibility import why_alone
from reviewqueue.pages.inbox.empty_states import VIEW_NAMES, empty_inbox, view_name
from reviewqueue.pages.inbox.list_request import ListRequest, address
from reviewqueue.queries import inbox
from reviewqueue.queries.inbox import OPEN_VIEWS, InboxPage
from reviewqueue.queries.inbox_counts import InboxCounts, count_requests
from reviewqueue.queries.inbox_filters import InboxFilters
from reviewqueue.queries.open_requests import read_open_requests
from reviewqueue.text.hidden_characters import Warnings, warnings_in
from reviewqueue.text.json_values import Argument
from runs.decisions import Tally, tally_votes_of
from runs.models import Decision, Interrupt
from runs.states import DecisionStatus, Kind, Risk

#: The orders of open requests (``inbox_filters.ORDERS``), as texts.
SORTS = {
    "": gettext_noop("highest risk first, then least time left"),
    "deadline": gettext_noop("least time left first"),
    "oldest": gettext_noop("oldest first"),
    "newest": gettext_noop("newest first"),
}
_VOTED = gettext_noop("You have approved it; it needs more approvals.")


@dataclass(frozen=True, kw_only=True)
class ShownRow:
    """One row of the inbox."""

    interrupt: Interrupt
    title: SafeString
    plain: str
    arguments: tuple[Argument, ...]
    call_arguments: Mapping[str, Any]
    amount: Argument | None
    is_in_title: bool
    then: str
    changed_facts: int
    warnings: Warnings
    is_held: bool
    is_stuck: bool
    is_mine: bool
    is_open: bool
    may_claim: bool
    why_alone: str
    votes: Tally | None
    has_voted: bool
    ended: tuple[str, str]
    decided_by: str
    verdict: str
    decision_id: str
    decision: Decision | None
    assignees: tuple[str, ...]

    @property
    def others_assigned(self) -> int:
        """Return how many people are assigned besides the first."""
        return max(0, len(self.assignees) - 1)

    @property
    def is_selectable(self) -> bool:
        """Return whether the row has a checkbox for a bulk decision."""
        return self.is_open and not self.why_alone

    @property
    def own_vote(self) -> str:
        """Return whether the reader has voted, to append to the count of votes."""
        if self.votes is None or not (self.has_voted or self.votes.counted):
            return ""
        return _(", you voted") if self.has_voted else _(", you have not voted")

    @property
    def is_overtaken(self) -> bool:
        """Return whether a later change made the decision obsolete."""
        return self.decision is not None and self.decision.status == DecisionStatus.OVERTAKEN


@dataclass(frozen=True, kw_only=True)
class Group:
    """The rows of one risk. ``count`` counts the whole list, not this page."""

    risk: str
    count: str
    first_ends: datetime | None
    rows: list[ShownRow]


@dataclass(frozen=True, kw_only=True)
class Link:
    """A link to a view or a queue with the number of its requests."""

    label: str
    url: str
    count: str
    is_current: bool


def inbox_context(reader: AbstractUser, asked_for: ListRequest, *, now: datetime) -> dict[str, Any]:
    view, filters = asked_for.view, asked_for.filters
    seen = read_open_requests(reader, are_counted=True, count_decidable_at=now)
    counts = count_requests(reader, view=view, filters=filters, now=now, seen=seen)
    found = inbox.list_requests(reader, view=view, filters=filters, after=asked_for.after, now=now, seen=seen)
    groups = inbox_groups(found, counts, asked_for, reader=reader, now=now)
    selectable = [row.interrupt.public_id for group in groups for row in group.rows if row.is_selectable]
    bulk_query = urlencode({"list": asked_for.query(with_place=True), "interrupt": selectable}, doseq=True)
    return list_texts(found, counts, asked_for) | {
        "section": "inbox",
        "now": now,
        "inbox_count": counts.shown_decidable,
        "asked": asked_for,
        "list": asked_for.query(with_place=True),
        "onward": f"?{urlencode({'list': asked_for.query()})}" if asked_for.query() else "",
        "here": address(view, filters, asked_for.after),
        "found": found,
        "groups": groups,
        "selectable": selectable,
        "select_all_url": f"{reverse('together')}?{bulk_query}",
        "halts": inbox.list_open_halts(found.rows),
        "links": view_links(counts, asked_for),
        "choices": list_choices(counts, filters),
        "sorts": [(sort, _(label)) for sort, label in SORTS.items()] if view in OPEN_VIEWS else (),
        "empty": None if found.rows else empty_inbox(reader, counts, asked_for, continued=found.continued),
    }


def inbox_groups(
    found: InboxPage, counts: InboxCounts, asked_for: ListRequest, *, reader: AbstractUser, now: datetime
) -> list[Group]:
    """Group the rows by risk in the views that are sorted by risk; other views are one group."""
    view = asked_for.view
    rows = shown_rows(found.rows, reader=reader, now=now)
    if view not in OPEN_VIEWS or asked_for.filters.sort:
        return [Group(risk="", count="", first_ends=None, rows=rows)] if rows else []
    groups: list[Group] = []
    for risk, of_risk in groupby(rows, key=lambda row: row.interrupt.risk):
        inside = list(of_risk)
        starts_here = not found.continued or bool(groups)
        groups.append(
            Group(
                risk=risk,
                count=str(counts.of_risk(view, risk)) if view not in counts.more else "",
                first_ends=inside[0].interrupt.deadline if starts_here else None,
                rows=inside,
            )
        )
    return groups


def shown_rows(rows: list[inbox.InboxRow], *, reader: AbstractUser, now: datetime) -> list[ShownRow]:
    labels = labels_of((row.interrupt.agent_id, row.proposal) for row in rows)
    votes = tally_votes_of(row.interrupt for row in rows if row.interrupt.closed_at is None)
    return [_row(row, labels, votes.get(row.interrupt.pk), reader=reader, now=now) for row in rows]


def _row(row: inbox.InboxRow, labels: Labels, votes: Tally | None, *, reader: AbstractUser, now: datetime) -> ShownRow:
    it = row.interrupt
    decision = row.decision
    label, call = None, None
    if it.kind == Kind.APPROVAL and row.proposal is not None:
        label = labels.get((it.agent_id, str(row.proposal["name"])))
        call = describe_call(row.proposal, label)
    title, plain = request_heading_for_row(it, None, labels) if call is None else (call.sentence, call.plain)
    arguments = call.arguments if call is not None else ()
    # The column of amounts shows the first argument that has a unit in the owner's label.
    amount = next((argument for argument in arguments if argument.is_amount), None) if label is not None else None
    is_mine = it.claimed_by_id == reader.pk
    has_voted = votes is not None and votes.includes(reader)
    return ShownRow(
        interrupt=it,
        title=title,
        plain=plain,
        arguments=arguments,
        call_arguments={} if row.proposal is None else row.proposal["arguments"],
        amount=amount,
        is_in_title=amount is not None and label is not None and f"{{{amount.name}}}" in label.sentence,
        then=code_labels.deadline_outcome_short(it),
        changed_facts=row.changed_facts,
        warnings=warnings_in(row.proposal if it.kind == Kind.APPROVAL else it.title),
        is_held=row.is_held,
        is_stuck=row.is_stuck,
        is_mine=is_mine,
        is_open=it.closed_at is None,
        may_claim=row.may_decide and (is_mine or not row.is_held),
        why_alone=_VOTED if has_voted else why_alone(row, reader, now=now),
        votes=votes,
        has_voted=has_voted,
        ended=code_labels.closed_label(it),
        decided_by="" if decision is None else code_labels.decider_label(decision, it.kind),
        verdict="" if decision is None else code_labels.done_label(decision, it.kind),
        decision_id="" if decision is None else decision.public_id,
        decision=decision,
        assignees=row.assignees,
    )


def list_texts(found: InboxPage, counts: InboxCounts, asked_for: ListRequest) -> dict[str, str]:
    """Return the heading, the count, the order and the links to the other pages of the list."""
    view, filters = asked_for.view, asked_for.filters
    in_queue = _(" in {queue}").format(queue=code_labels.queue_title(filters.queue)) if filters.queue else ""
    return {
        "heading": f"{view_name(view)}{in_queue}",
        "count": counts.shown(view),
        "order": _(SORTS[filters.sort]) if view in OPEN_VIEWS else _("newest first"),
        "next_url": address(view, filters, found.next) if found.next else "",
        "first_url": address(view, filters),
        "without_url": address(view) if filters.any or asked_for.entered else "",
    }


def view_links(counts: InboxCounts, asked_for: ListRequest) -> dict[str, list[Link]]:
    """Return the links to the views and to the queues with open requests; they keep the other filters."""
    view, filters = asked_for.view, asked_for.filters
    views = [
        Link(label=view_name(of), url=address(of, filters), count=counts.shown(of), is_current=of == view)
        for of in VIEW_NAMES
    ]
    queues = [
        Link(
            label=code_labels.queue_title(slug) if slug else _("Any queue"),
            url=address(view, filters.but(queue=slug)),
            count=counts.shown(view, slug) if view in OPEN_VIEWS else "",
            is_current=slug == filters.queue,
        )
        for slug in ("", *counts.choices.queues)
    ]
    return {"views": views, "queues": queues if len(queues) > 2 or filters.queue else []}


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One filter: its query parameter, its title, the label of "any", the options (value and label), the chosen value."""

    name: str
    title: str
    label: str
    options: tuple[tuple[str, str], ...]
    chosen: str


def list_choices(counts: InboxCounts, filters: InboxFilters) -> list[Choice]:
    """Return the filters. A chosen value stays an option even if no request has it any more."""
    offered = (
        (
            "risk",
            _("Risk"),
            _("Any risk"),
            filters.risk,
            [(str(risk), code_labels.risk_label(risk)) for risk in Risk],
        ),
        (
            "queue",
            _("Queue"),
            _("Any queue"),
            filters.queue,
            [(slug, code_labels.queue_title(slug)) for slug in counts.choices.queues],
        ),
        ("reason", _("Reason"), _("Any reason"), filters.reason, [(one, one) for one in counts.choices.reasons]),
        ("agent", _("Agent"), _("Any agent"), filters.agent, [(slug, slug) for slug in counts.choices.agents]),
    )
    return [
        Choice(
            name=name,
            title=title,
            label=label,
            options=tuple(dict([*found, *_also(chosen, found)]).items()),
            chosen=chosen,
        )
        for name, title, label, chosen, found in offered
    ]


def _also(chosen: str, found: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(chosen, chosen)] if chosen and chosen not in dict(found) else []
