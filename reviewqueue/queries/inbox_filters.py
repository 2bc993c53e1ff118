"""Inbox filters: queue, reason, risk, agent and text search. Read-only.

A filter only removes rows from those that ``permissions`` makes visible. Search terms are matched literally, without
wildcards, and ignore case on both databases. Only the first rows of a list are searched, so that no search is slow.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from django.db import connection
from django.db.models import Q, QuerySet, TextField, Value
from django.db.models.functions import Cast, Concat, Substr

from ledger import exact_json
from runs.models import CallLabel, Interrupt

SEARCHED = 10_000  # rows of a list, in its order
SEARCHED_OF_A_CALL = 4_000  # characters of a call that are searched
MAX_TEXT_LENGTH = 100
MAX_TERMS = 8
MAX_LABELS = 500
_CONTROL = re.compile("[\x00-\x08\x0e-\x1f\x7f\ud800-\udfff]")


@dataclass(frozen=True, kw_only=True)
class InboxFilters:
    """The filters of a list; an empty text filters nothing."""

    queue: str = ""
    reason: str = ""
    risk: str = ""
    agent: str = ""
    text: str = ""

    @property
    def any(self) -> bool:
        """Tell whether any filter is active."""
        return self != InboxFilters()

    @property
    def terms(self) -> list[str]:
        """Return the search terms; all must match, in any order."""
        return self.text.split()

    def but(self, **changed: str) -> InboxFilters:
        """Return these filters with some of them changed."""
        return replace(self, **changed)

    def fits(self, *, queue: str, reason: str, risk: str, agent: str) -> bool:
        """Tell whether requests with these attributes pass, apart from the text search."""
        wanted = ((self.queue, queue), (self.reason, reason), (self.risk, risk), (self.agent, agent))
        return all(asked in ("", found) for asked, found in wanted)


def explain_invalid_search(text: str) -> str:
    """Return why a text cannot be searched for, or an empty text."""
    if _CONTROL.search(text):
        return "it contains a character that cannot be stored"
    if len(text) > MAX_TEXT_LENGTH:
        return f"it is longer than {MAX_TEXT_LENGTH} characters"
    return f"it has more than {MAX_TERMS} terms" if len(text.split()) > MAX_TERMS else ""


def apply_filters(waits: QuerySet[Interrupt], filters: InboxFilters, *, order: tuple[str, ...]) -> QuerySet[Interrupt]:
    """Return the requests that pass. With search terms, only the first ``SEARCHED`` rows in ``order`` are searched."""
    named = {
        "queue__slug": filters.queue,
        "reason": filters.reason,
        "risk": filters.risk,
        "agent__slug": filters.agent,
    }
    waits = waits.filter(**{member: asked for member, asked in named.items() if asked})
    if not filters.terms:
        return waits
    return search(Interrupt.objects.filter(pk__in=waits.order_by(*order)[:SEARCHED].values("pk")), filters)


def search(looked_at: QuerySet[Interrupt], filters: InboxFilters) -> QuerySet[Interrupt]:
    """Return those of these requests that contain every search term."""
    if not filters.terms:
        return looked_at
    call = Substr(Cast("proposal", TextField()), 1, SEARCHED_OF_A_CALL)
    members: list[Any] = ["title", "reason", "agent__slug", "queue__slug", call]
    searched_text = Concat(*(part for member in members for part in (member, Value(" "))), output_field=TextField())
    found = looked_at.alias(call_text=call, searched_text=searched_text)
    labels = list(CallLabel.objects.values_list("agent", "name", "sentence")[:MAX_LABELS])
    for term in filters.terms:
        found = found.filter(_contains("searched_text", term) | Q(public_id=term) | _has_label(labels, term))
    return found


def _contains(member: str, term: str) -> Q:
    """Return the filter for a term inside a text. SQLite's LIKE ignores case only for ASCII letters."""
    if connection.vendor == "sqlite":
        return Q(**{f"{member}__iregex": re.escape(term)})
    return Q(**{f"{member}__icontains": term})


def _has_label(labels: list[tuple[Any, ...]], term: str) -> Q:
    """Return the filter for calls whose label contains the term."""
    wanted = Q(pk__in=[])
    for agent, name, sentence in labels:
        if term.casefold() in sentence.casefold():
            wanted |= Q(agent=agent, call_text__contains=f'"name":{exact_json.dumps(name)}')
    return wanted
