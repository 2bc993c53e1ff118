"""Empty states of the inbox: why a list is empty and where to go instead.

An empty state never says that nothing is left while requests are hidden by filters, in another view or on another page.
"""

from __future__ import annotations

from django.contrib.auth.models import AbstractUser
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from reviewqueue import permissions
from reviewqueue.pages import code_labels
from reviewqueue.pages.empty_state import EmptyState
from reviewqueue.pages.inbox.list_request import ListRequest, address
from reviewqueue.queries.inbox import View
from reviewqueue.queries.inbox_counts import InboxCounts
from reviewqueue.queries.inbox_filters import InboxFilters

VIEW_NAMES: dict[View, str] = {
    View.DECIDE: gettext_noop("Mine to decide"),
    View.OPEN: gettext_noop("All open"),
    View.MINE: gettext_noop("Mine"),
    View.UNCLAIMED: gettext_noop("Unclaimed"),
    View.SNOOZED: gettext_noop("Snoozed"),
    View.DECIDED: gettext_noop("Decided"),
    View.EXPIRED: gettext_noop("Closed unanswered"),
}

_EMPTY_VIEWS: dict[View, tuple[str, str]] = {
    View.DECIDE: (
        gettext_noop("No requests for you to decide"),
        gettext_noop("Open requests that you can decide now appear here."),
    ),
    View.MINE: (
        gettext_noop("You have no requests"),
        gettext_noop("Requests that you claim, or that are assigned to you, appear here."),
    ),
    View.UNCLAIMED: (
        gettext_noop("No unclaimed requests"),
        gettext_noop("Requests that no reviewer has claimed appear here."),
    ),
    View.SNOOZED: (
        gettext_noop("No snoozed requests"),
        gettext_noop("Requests that you snooze appear here, and later in Mine to decide again."),
    ),
    View.DECIDED: (gettext_noop("No decided requests"), gettext_noop("Requests that were decided appear here.")),
    View.EXPIRED: (
        gettext_noop("No requests were closed unanswered"),
        gettext_noop("Expired, cancelled and withdrawn requests appear here."),
    ),
}


def view_name(view: View) -> str:
    return _(VIEW_NAMES[view])


def empty_inbox(reader: AbstractUser, counts: InboxCounts, asked_for: ListRequest, *, continued: bool) -> EmptyState:
    """``continued``: the list was asked for from a later page on."""
    view, filters = asked_for.view, asked_for.filters
    if continued:
        return EmptyState(
            picture="none-waiting",
            heading=_("End of the list"),
            text=_("The requests of this page have been decided in the meantime."),
            url=address(view, filters),
            button=_("Back to the start"),
        )
    if filters.any:
        # Most readers search for a request and not only for one that they can decide.
        is_elsewhere = view == View.DECIDE and counts.views[View.OPEN] > 0
        return EmptyState(
            picture="no-match",
            heading=_("No matching requests"),
            text=_("{view} {filters}: none.").format(view=view_name(view), filters=_describe_filters(filters))
            + f" {_open_elsewhere(counts)}",
            url=address(View.OPEN, filters) if is_elsewhere else address(view),
            button=_("Search all open requests") if is_elsewhere else _("Clear the filters"),
        )
    if not counts.all_open and not counts.views[View.DECIDED] and not counts.views[View.EXPIRED]:
        return _no_request_ever(reader)
    if view in _EMPTY_VIEWS and (view != View.DECIDE or counts.all_open):
        heading, meaning = map(_, _EMPTY_VIEWS[view])
        return EmptyState(
            picture="none-waiting",
            heading=heading,
            text=f"{meaning} {_open_elsewhere(counts)}",
            url=address(View.OPEN),
            button=_("Show all open requests"),
        )
    return EmptyState(
        picture="none-waiting",
        heading=_("No open requests"),
        text=_("{shown} decided so far in your queues. New requests of agents appear here.").format(
            shown=counts.shown(View.DECIDED)
        ),
        url=address(View.DECIDED),
        button=_("Show decided requests"),
    )


def _no_request_ever(reader: AbstractUser) -> EmptyState:
    if not _is_in_a_queue(reader):
        return EmptyState(
            picture="no-queue",
            heading=_("You are not in a queue yet"),
            text=_("You are signed in as {reader}. Ask a lead to add you to a queue.").format(
                reader=reader.get_username()
            ),
        )
    return EmptyState(
        picture="no-requests-yet",
        heading=_("No requests yet"),
        text=_("Requests of agents to your queues appear here."),
    )


def _open_elsewhere(counts: InboxCounts) -> str:
    return (
        _("{shown_open} open in all your queues.").format(shown_open=counts.shown_open)
        if counts.all_open
        else _("No request is open in your queues.")
    )


def _describe_filters(filters: InboxFilters) -> str:
    parts = [
        _("with “{text}”").format(text=filters.text) if filters.text else "",
        _with_risk(filters.risk),
        _("in {queue}").format(queue=code_labels.queue_title(filters.queue)) if filters.queue else "",
        _("with reason {reason}").format(reason=filters.reason) if filters.reason else "",
        _("of agent {agent}").format(agent=filters.agent) if filters.agent else "",
    ]
    return ", ".join(part for part in parts if part)


def _with_risk(risk: str) -> str:
    labels = {"high": _("with high risk"), "medium": _("with medium risk"), "low": _("with low risk")}
    return labels.get(risk, "")


def _is_in_a_queue(reader: AbstractUser) -> bool:
    return permissions.queues_of_members(reader.groups.values("pk")).exists()
