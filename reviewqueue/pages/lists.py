"""The inbox as its page draws it: rows in words, grouped by risk, the links beside it, and four kinds of nothing.

Called by ``views``. A row's title is made by us from the stored call; the agent's own title stands second, quoted.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from django.contrib.auth.models import AbstractUser
from django.http import QueryDict
from django.urls import reverse
from django.utils.safestring import SafeString

from reviewqueue import inbox
from reviewqueue.inbox import OPEN_VIEWS, Counts, Slice, View
from reviewqueue.pages import phrases
from reviewqueue.pages.calls import Argument, Labels, describe_call, labels_of
from reviewqueue.pages.characters import Warnings, warnings_in
from reviewqueue.pages.waits import asked
from runs.models import Interrupt, Queue
from runs.states import Kind

_LINKS: dict[View, str] = {
    View.OPEN: "All open",
    View.MINE: "Mine",
    View.UNCLAIMED: "Unclaimed",
    View.DECIDED: "Decided",
    View.EXPIRED: "Ended unanswered",
}


@dataclass(frozen=True, kw_only=True)
class ShownRow:
    """One row of the inbox."""

    interrupt: Interrupt
    title: SafeString
    plain: str
    amount: Argument | None
    then: str
    changed_facts: int
    warnings: Warnings
    is_held: bool
    is_mine: bool
    is_open: bool
    ended: tuple[str, str]
    decided_by: str
    verdict: str
    decision_id: str


@dataclass(frozen=True, kw_only=True)
class Group:
    """The rows of one risk; ``count`` is of the whole list, not of this page."""

    risk: str
    count: str
    first_ends: datetime | None
    rows: list[ShownRow]


@dataclass(frozen=True, kw_only=True)
class Link:
    """A list that can be opened, and how long it is."""

    words: str
    url: str
    count: str
    is_current: bool


@dataclass(frozen=True, kw_only=True)
class Nothing:
    """Why there is nothing here, and where to go."""

    picture: str
    heading: str
    words: str
    url: str
    act: str


def inbox_groups(
    found: Slice, counts: Counts, *, view: View, queue: str, reader: AbstractUser, now: datetime
) -> list[Group]:
    """Return the rows, grouped by risk where the list is sorted by it."""
    labels = labels_of((row.interrupt.agent_id, row.interrupt.proposal) for row in found.rows)
    rows = [_row(row, labels, reader=reader, now=now) for row in found.rows]
    if view not in OPEN_VIEWS:
        return [Group(risk="", count="", first_ends=None, rows=rows)] if rows else []
    groups: list[Group] = []
    for risk, of_risk in groupby(rows, key=lambda row: row.interrupt.risk):
        inside = list(of_risk)
        starts_here = not found.continued or bool(groups)
        groups.append(
            Group(
                risk=risk,
                count=str(counts.of_risk(view, queue, risk)) if view not in counts.more else "",
                first_ends=inside[0].interrupt.deadline if starts_here else None,
                rows=inside,
            )
        )
    return groups


def _row(row: inbox.Row, labels: Labels, *, reader: AbstractUser, now: datetime) -> ShownRow:
    it = row.interrupt
    title, plain = asked(it, labels)
    decision = row.decision
    by = decision.by if decision is not None else None
    return ShownRow(
        interrupt=it,
        title=title,
        plain=plain,
        amount=_amount(it, labels),
        then=phrases.then_what(it),
        changed_facts=row.changed_facts,
        warnings=warnings_in([it.title, it.proposal]),
        is_held=it.claimed_by is not None and it.claimed_until is not None and it.claimed_until > now,
        is_mine=it.claimed_by_id == reader.pk,
        is_open=it.closed_at is None,
        ended=phrases.closed_words(it),
        decided_by="" if decision is None else "by default" if by is None else by.get_full_name() or by.get_username(),
        verdict="" if decision is None else phrases.VERDICT_DONE.get(decision.verdict, "answered"),
        decision_id="" if decision is None else decision.public_id,
    )


def _amount(interrupt: Interrupt, labels: Labels) -> Argument | None:
    """Return the first argument that the owner's label gives a unit, for the column of amounts."""
    if interrupt.proposal is None or interrupt.kind != Kind.APPROVAL:
        return None
    label = labels.get((interrupt.agent_id, str(interrupt.proposal["name"])))
    arguments = describe_call(interrupt.proposal, label).arguments if label is not None else ()
    return next((argument for argument in arguments if argument.is_amount), None)


def address(*, view: View = View.OPEN, queue: str = "", after: str = "") -> str:
    """Return where a list of the inbox is."""
    asked_for = QueryDict(mutable=True)
    wanted = {"view": "" if view == View.OPEN else str(view), "queue": queue, "after": after}
    asked_for.update({name: value for name, value in wanted.items() if value})
    return reverse("inbox") + (f"?{asked_for.urlencode()}" if asked_for else "")


def list_words(found: Slice, counts: Counts, *, view: View, queue: str) -> dict[str, str]:
    """Return what stands around the list: its name, its length, its order, the ways to its other pages."""
    name = _LINKS[view] if not queue else f"{_LINKS[view]} in {phrases.queue_title(queue)}"
    is_open = view in OPEN_VIEWS
    return {
        "heading": name,
        "count": counts.shown(view, queue) if is_open or not queue else "",
        "order": "highest risk first, then least time left" if is_open else "the last one first",
        "next_url": address(view=view, queue=queue, after=found.next) if found.next else "",
        "first_url": address(view=view, queue=queue),
    }


def view_links(counts: Counts, *, view: View, queue: str) -> dict[str, list[Link]]:
    """Return the links to the views, and to each queue with something open."""
    views = [
        Link(words=words, url=address(view=of), count=counts.shown(of), is_current=of == view and not queue)
        for of, words in _LINKS.items()
    ]
    queues = [
        Link(
            words=phrases.queue_title(slug),
            url=address(view=view, queue=slug),
            count=str(of_queue[view]) if view in OPEN_VIEWS else "",
            is_current=slug == queue,
        )
        for slug, of_queue in counts.queues.items()
    ]
    return {"views": views, "queues": queues}


def empty_list(reader: AbstractUser, counts: Counts, *, view: View, queue: str, continued: bool) -> Nothing:
    """Return which kind of nothing this is: it never says that nothing is left while something is."""
    open_count = counts.views[View.OPEN]
    if continued:
        return _nothing("none-waiting", "The list ends here", "What stood here was decided meanwhile.", view, queue)
    if view != View.OPEN or queue:
        words = f"{_LINKS[view]}{f' in {phrases.queue_title(queue)}' if queue else ''}: none."
        others = f" {counts.shown(View.OPEN)} open in all your queues." if open_count else " None is open either."
        return Nothing(
            picture="no-match", heading="Nothing matches", words=words + others, url=address(), act="Show all open"
        )
    if not _is_in_a_queue(reader):
        words = f"You are signed in as {reader.get_username()}, but no queue lists you. Ask a lead to add you."
        return Nothing(picture="no-queue", heading="You are in no queue yet", words=words, url="", act="")
    if counts.views[View.DECIDED] or counts.views[View.EXPIRED]:
        words = f"{counts.shown(View.DECIDED)} decided so far in your queues. What agents ask next appears here."
        link = address(view=View.DECIDED)
        return Nothing(
            picture="none-waiting", heading="Nothing waits for you", words=words, url=link, act="See decided"
        )
    words = "As soon as an agent asks one of your queues, it stands here. Nothing has been asked so far."
    return Nothing(picture="first-ask", heading="No agent has asked anything yet", words=words, url="", act="")


def _nothing(picture: str, heading: str, words: str, view: View, queue: str) -> Nothing:
    return Nothing(
        picture=picture, heading=heading, words=words, url=address(view=view, queue=queue), act="Back to the start"
    )


def _is_in_a_queue(reader: AbstractUser) -> bool:
    groups = list(reader.groups.values_list("pk", flat=True))
    desks = Queue.objects.filter(reviewers__in=groups) | Queue.objects.filter(leads__in=groups)
    return (desks | Queue.objects.filter(auditors__in=groups)).exists()
