"""Empty states of the inbox: why a list is empty and where to go instead.

An empty state never says that nothing is left while requests are hidden by filters, in another view or on another page.
"""

from __future__ import annotations

from django.contrib.auth.models import AbstractUser

from reviewqueue import permissions
from reviewqueue.pages import code_labels
from reviewqueue.pages.empty_state import EmptyState
from reviewqueue.pages.inbox.list_request import ListRequest, address
from reviewqueue.queries.inbox import View
from reviewqueue.queries.inbox_counts import InboxCounts
from reviewqueue.queries.inbox_filters import InboxFilters

VIEW_NAMES: dict[View, str] = {
    View.DECIDE: "Mine to decide",
    View.OPEN: "All open",
    View.MINE: "Mine",
    View.UNCLAIMED: "Unclaimed",
    View.SNOOZED: "Snoozed",
    View.DECIDED: "Decided",
    View.EXPIRED: "Closed unanswered",
}

_EMPTY_VIEWS: dict[View, tuple[str, str]] = {
    View.DECIDE: ("No requests for you to decide", "Open requests that you can decide now appear here."),
    View.MINE: ("You have no requests", "Requests that you claim, or that are assigned to you, appear here."),
    View.UNCLAIMED: ("No unclaimed requests", "Requests that no reviewer has claimed appear here."),
    View.SNOOZED: ("No snoozed requests", "Requests that you snooze appear here, and later in Mine to decide again."),
    View.DECIDED: ("No decided requests", "Requests that were decided appear here."),
    View.EXPIRED: ("No requests were closed unanswered", "Expired, cancelled and withdrawn requests appear here."),
}


def empty_inbox(reader: AbstractUser, counts: InboxCounts, asked_for: ListRequest, *, continued: bool) -> EmptyState:
    """``continued``: the list was asked for from a later page on."""
    view, filters = asked_for.view, asked_for.filters
    if continued:
        return EmptyState(
            picture="none-waiting",
            heading="End of the list",
            text="The requests of this page have been decided in the meantime.",
            url=address(view, filters),
            button="Back to the start",
        )
    if filters.any:
        # Most readers search for a request and not only for one that they can decide.
        is_elsewhere = view == View.DECIDE and counts.views[View.OPEN] > 0
        return EmptyState(
            picture="no-match",
            heading="No matching requests",
            text=f"{VIEW_NAMES[view]} {_describe_filters(filters)}: none. {_open_elsewhere(counts)}",
            url=address(View.OPEN, filters) if is_elsewhere else address(view),
            button="Search all open requests" if is_elsewhere else "Clear the filters",
        )
    if not counts.all_open and not counts.views[View.DECIDED] and not counts.views[View.EXPIRED]:
        return _no_request_ever(reader)
    if view in _EMPTY_VIEWS and (view != View.DECIDE or counts.all_open):
        heading, meaning = _EMPTY_VIEWS[view]
        return EmptyState(
            picture="none-waiting",
            heading=heading,
            text=f"{meaning} {_open_elsewhere(counts)}",
            url=address(View.OPEN),
            button="Show all open requests",
        )
    return EmptyState(
        picture="none-waiting",
        heading="No open requests",
        text=f"{counts.shown(View.DECIDED)} decided so far in your queues. New requests of agents appear here.",
        url=address(View.DECIDED),
        button="Show decided requests",
    )


def _no_request_ever(reader: AbstractUser) -> EmptyState:
    if not _is_in_a_queue(reader):
        return EmptyState(
            picture="no-queue",
            heading="You are not in a queue yet",
            text=f"You are signed in as {reader.get_username()}. Ask a lead to add you to a queue.",
        )
    return EmptyState(
        picture="no-requests-yet",
        heading="No requests yet",
        text="Requests of agents to your queues appear here.",
    )


def _open_elsewhere(counts: InboxCounts) -> str:
    return f"{counts.shown_open} open in all your queues." if counts.all_open else "No request is open in your queues."


def _describe_filters(filters: InboxFilters) -> str:
    parts = [
        f"with “{filters.text}”" if filters.text else "",
        f"with {filters.risk} risk" if filters.risk else "",
        f"in {code_labels.queue_title(filters.queue)}" if filters.queue else "",
        f"with reason {filters.reason}" if filters.reason else "",
        f"of agent {filters.agent}" if filters.agent else "",
    ]
    return ", ".join(part for part in parts if part)


def _is_in_a_queue(reader: AbstractUser) -> bool:
    return permissions.queues_of_members(reader.groups.values("pk")).exists()
