"""The query of a list in the inbox: its view, its filters and its page, parsed and serialized.

A valid filter that matches nothing gives an empty list. An invalid filter is ignored, and a notice says so.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from django.http import QueryDict
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from reviewqueue.queries.inbox import View, parse_position
from reviewqueue.queries.inbox_filters import ORDERS, InboxFilters, explain_invalid_search
from reviewqueue.text.hidden_characters import mark_hidden_plain
from runs.states import Risk

NAMES = ("view", "queue", "reason", "risk", "agent", "q", "sort", "after")
MAX_LENGTH = 4_000  # of a query; the text search alone can have 1,200 characters when encoded
MAX_PARAMETERS = 100
_SLUG = re.compile(r"[-A-Za-z0-9_.:]{1,60}")
_WITHOUT: dict[str, str] = {
    "queue": gettext_noop("requests of all queues are shown"),
    "reason": gettext_noop("requests of all reasons are shown"),
    "risk": gettext_noop("requests of all risks are shown"),
    "agent": gettext_noop("requests of all agents are shown"),
}


@dataclass(frozen=True, kw_only=True)
class ListRequest:
    """One list of the inbox. ``notices`` name ignored parameters; ``entered`` is the search text as entered."""

    view: View
    filters: InboxFilters
    after: str
    notices: tuple[str, ...]
    entered: str

    def query(self, *, with_place: bool = False) -> str:
        """Return the query of this list, without ignored parameters."""
        return query_of(self.view, self.filters, self.after if with_place else "")


def read_list(query: QueryDict) -> ListRequest:
    notices = [
        _("“{name}” is given twice; the last value is used.").format(name=name)
        for name in NAMES
        if len(query.getlist(name)) > 1
    ]
    view = query.get("view", "")
    if view and view not in set(View):
        notices.append(_("“{shown}” is not a view: your requests to decide are shown.").format(shown=_shown(view)))
        view = ""
    named = {}
    for name, instead in _WITHOUT.items():
        word = query.get(name, "").strip()
        is_one = word in Risk.values if name == "risk" else bool(_SLUG.fullmatch(word))
        if word and not is_one:
            notices.append(
                _("“{shown}” is not a valid {name}: {instead}.").format(
                    shown=_shown(word), name=name, instead=_(instead)
                )
            )
        named[name] = word if is_one else ""
    entered = query.get("q", "").strip()
    fault = explain_invalid_search(entered)
    if fault:
        notices.append(_("The search was ignored: {fault}.").format(fault=fault))
    sort = query.get("sort", "").strip()
    if sort not in ORDERS:
        notices.append(_("“{shown}” is not an order: the highest risk is shown first.").format(shown=_shown(sort)))
        sort = ""
    after = query.get("after", "")
    if after and parse_position(after) is None:
        notices.append(_("This page of the list does not exist: the first page is shown."))
        after = ""
    filters = InboxFilters(text="" if fault else " ".join(entered.split()), sort=sort, **named)
    return ListRequest(
        view=View(view) if view else View.DECIDE,
        filters=filters,
        after=after,
        notices=tuple(notices),
        entered=entered[:200],
    )


def read_list_text(text: str) -> ListRequest:
    """Parse the query that a form or an address passes on. A longer one than any list has is ignored, never cut."""
    is_list = len(text) <= MAX_LENGTH and text.count("&") < MAX_PARAMETERS
    return read_list(QueryDict(text if is_list else ""))


def query_of(view: View, filters: InboxFilters, after: str = "") -> str:
    """Return the query of a list; empty for all requests that the reader can decide."""
    wanted = {
        "view": "" if view == View.DECIDE else str(view),
        "queue": filters.queue,
        "reason": filters.reason,
        "risk": filters.risk,
        "agent": filters.agent,
        "q": filters.text,
        "sort": filters.sort,
        "after": after,
    }
    asked = QueryDict(mutable=True)
    asked.update({name: value for name, value in wanted.items() if value})
    return asked.urlencode()


def address(view: View = View.DECIDE, filters: InboxFilters | None = None, after: str = "") -> str:
    """Return the address of a list in the inbox."""
    query = query_of(view, filters or InboxFilters(), after)
    return reverse("inbox") + (f"?{query}" if query else "")


def _shown(text: str) -> str:
    return mark_hidden_plain(text[:40]) + ("…" if len(text) > 40 else "")
