"""What the address of a list asks for: its view, its filters, its page. What cannot be read is said, never passed over.

Called by the pages of the inbox, and by whatever leads back to the list that a person came from. A filter that is well
formed and matches nothing leads to an empty list; one that is not well formed is left out, and a notice says so.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from django.http import QueryDict
from django.urls import reverse

from reviewqueue.queries.inbox import View, read_place
from reviewqueue.queries.inbox_filters import Filters, fault_of
from reviewqueue.text.hidden_characters import seen_plain
from runs.states import Risk

NAMES = ("view", "queue", "reason", "risk", "agent", "q", "after")
_WORD = re.compile(r"[-A-Za-z0-9_.:]{1,60}")
_WITHOUT: dict[str, str] = {
    "queue": "waits of every queue are shown",
    "reason": "waits of every reason are shown",
    "risk": "waits of every risk are shown",
    "agent": "waits of every agent are shown",
}


@dataclass(frozen=True, kw_only=True)
class ListAsked:
    """One list as it was asked for. ``notices`` say what could not be read; ``typed`` is the search as it was typed."""

    view: View
    filters: Filters
    after: str
    notices: tuple[str, ...]
    typed: str

    def query(self, *, with_place: bool = False) -> str:
        """Return the query that asks for this list, without what could not be read."""
        return query_of(self.view, self.filters, self.after if with_place else "")


def read_list(query: QueryDict) -> ListAsked:
    """Return the list that a query asks for."""
    notices = [f"“{name}” is given twice; the last one counts." for name in NAMES if len(query.getlist(name)) > 1]
    view = query.get("view", "")
    if view and view not in set(View):
        notices.append(f"There is no view “{_shown(view)}”: all open waits are shown.")
        view = ""
    named = {}
    for name, instead in _WITHOUT.items():
        word = query.get(name, "").strip()
        is_one = word in Risk.values if name == "risk" else bool(_WORD.fullmatch(word))
        if word and not is_one:
            notices.append(f"“{_shown(word)}” is no {name}: {instead}.")
        named[name] = word if is_one else ""
    typed = query.get("q", "").strip()
    fault = fault_of(typed)
    if fault:
        notices.append(f"The search was left out: {fault}.")
    after = query.get("after", "")
    if after and read_place(after) is None:
        notices.append("This page of the list cannot be found: the list is shown from its start.")
        after = ""
    filters = Filters(text="" if fault else " ".join(typed.split()), **named)
    return ListAsked(
        view=View(view) if view else View.OPEN, filters=filters, after=after, notices=tuple(notices), typed=typed[:200]
    )


def query_of(view: View, filters: Filters, after: str = "") -> str:
    """Return the query of a list, empty for all that is open."""
    wanted = {
        "view": "" if view == View.OPEN else str(view),
        "queue": filters.queue,
        "reason": filters.reason,
        "risk": filters.risk,
        "agent": filters.agent,
        "q": filters.text,
        "after": after,
    }
    asked = QueryDict(mutable=True)
    asked.update({name: value for name, value in wanted.items() if value})
    return asked.urlencode()


def address(view: View = View.OPEN, filters: Filters | None = None, after: str = "") -> str:
    """Return where a list of the inbox is."""
    query = query_of(view, filters or Filters(), after)
    return reverse("inbox") + (f"?{query}" if query else "")


def _shown(text: str) -> str:
    return seen_plain(text[:40]) + ("…" if len(text) > 40 else "")
