"""Four kinds of nothing: why a list of the inbox is empty, and where to go instead.

Called by ``lists``. It never says that nothing is left while something is: behind filters, in another view, on another page.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib.auth.models import AbstractUser

from reviewqueue.pages import code_labels
from reviewqueue.pages.inbox.list_request import ListAsked, address
from reviewqueue.queries.inbox import View
from reviewqueue.queries.inbox_counts import Counts
from reviewqueue.queries.inbox_filters import Filters
from runs.models import Queue

VIEW_NAMES: dict[View, str] = {
    View.OPEN: "All open",
    View.MINE: "Mine",
    View.UNCLAIMED: "Unclaimed",
    View.DECIDED: "Decided",
    View.EXPIRED: "Ended unanswered",
}


@dataclass(frozen=True, kw_only=True)
class Nothing:
    """Why there is nothing here, and where to go."""

    picture: str
    heading: str
    words: str
    url: str
    act: str


def empty_list(reader: AbstractUser, counts: Counts, asked_for: ListAsked, *, continued: bool) -> Nothing:
    """Return which kind of nothing this is: it never says that nothing is left while something is."""
    view, filters = asked_for.view, asked_for.filters
    if continued:
        return Nothing(
            picture="none-waiting",
            heading="The list ends here",
            words="What stood here was decided meanwhile.",
            url=address(view, filters),
            act="Back to the start",
        )
    if filters.any:
        return Nothing(
            picture="no-match",
            heading="Nothing matches",
            words=f"{VIEW_NAMES[view]} {_filters_in_words(filters)}: none. {_open_elsewhere(counts)}",
            url=address(view),
            act="Show without filters",
        )
    if not counts.all_open and not counts.views[View.DECIDED] and not counts.views[View.EXPIRED]:
        return _nothing_ever(reader)
    if view != View.OPEN:
        words = f"{VIEW_NAMES[view]}: none. {_open_elsewhere(counts)}"
        return Nothing(picture="no-match", heading="Nothing matches", words=words, url=address(), act="Show all open")
    words = f"{counts.shown(View.DECIDED)} decided so far in your queues. What agents ask next appears here."
    return Nothing(
        picture="none-waiting",
        heading="Nothing waits for you",
        words=words,
        url=address(View.DECIDED),
        act="See decided",
    )


def _nothing_ever(reader: AbstractUser) -> Nothing:
    if not _is_in_a_queue(reader):
        words = f"You are signed in as {reader.get_username()}, but no queue lists you. Ask a lead to add you."
        return Nothing(picture="no-queue", heading="You are in no queue yet", words=words, url="", act="")
    words = "As soon as an agent asks one of your queues, it stands here. Nothing has been asked so far."
    return Nothing(picture="no-requests-yet", heading="No agent has asked anything yet", words=words, url="", act="")


def _open_elsewhere(counts: Counts) -> str:
    return f"{counts.shown_open} open in all your queues." if counts.all_open else "None is open either."


def _filters_in_words(filters: Filters) -> str:
    told = [
        f"with “{filters.text}”" if filters.text else "",
        f"with {filters.risk} risk" if filters.risk else "",
        f"in {code_labels.queue_title(filters.queue)}" if filters.queue else "",
        f"with reason {filters.reason}" if filters.reason else "",
        f"of agent {filters.agent}" if filters.agent else "",
    ]
    return ", ".join(words for words in told if words)


def _is_in_a_queue(reader: AbstractUser) -> bool:
    groups = list(reader.groups.values_list("pk", flat=True))
    desks = Queue.objects.filter(reviewers__in=groups) | Queue.objects.filter(leads__in=groups)
    return (desks | Queue.objects.filter(auditors__in=groups)).exists()
