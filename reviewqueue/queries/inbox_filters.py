"""Inbox filters: queue, reason, risk, agent and text search, and the order of a list. Read-only.

A filter only removes rows from those that ``permissions`` makes visible. Search terms are matched literally, without
wildcards, and ignore case on both databases. A quoted term can contain spaces. Only the first rows of a list are searched,
so that no search is slow; the id of a request, and the id and the key of a run, are found anywhere by their index.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from django.db import connection
from django.db.models import Func, Q, QuerySet, TextField, Value
from django.db.models.functions import Cast, Coalesce, Substr
from django.utils.translation import gettext as _

from ledger import exact_json
from runs.models import Agent, CallLabel, Interrupt, PlantedRequest, Run

SEARCHED = 10_000  # rows of a list, in its order
#: Requests that search terms can name by an id or a key.
MAX_NAMED = 200
SEARCHED_OF_A_CALL = 4_000  # characters of a call that are searched
MAX_TEXT_LENGTH = 100
MAX_TERMS = 8
MAX_LABELS = 500
_TERM = re.compile(r'"([^"]*[^"\s][^"]*)"(?=\s|$)|(\S+)')
_CONTROL = re.compile("[\x00-\x08\x0e-\x1f\x7f\ud800-\udfff]")


class _JoinedText(Func):
    """Texts joined by spaces, none of them NULL. ``Concat`` nests its parts deeper than SQLite's parser can read."""

    template, arg_joiner, output_field = "(%(expressions)s)", " || ' ' || ", TextField()


#: Sort keys of open requests by ``InboxFilters.sort``; the first is the order without one.
ORDERS: dict[str, tuple[str, ...]] = {
    "": ("risk_rank", "deadline", "id"),
    "deadline": ("deadline", "id"),
    "oldest": ("id",),
    "newest": ("-id",),
}


@dataclass(frozen=True, kw_only=True)
class InboxFilters:
    """The filters of a list; an empty text filters nothing."""

    queue: str = ""
    reason: str = ""
    risk: str = ""
    agent: str = ""
    text: str = ""
    sort: str = ""  # one of ORDERS, of open requests; it removes none

    @property
    def any(self) -> bool:
        """Tell whether any filter is active."""
        return self.but(sort="") != InboxFilters()

    @property
    def order(self) -> tuple[str, ...]:
        """Return the sort key of open requests."""
        return ORDERS[self.sort]

    @property
    def terms(self) -> list[str]:
        """Return the search terms; all must match, in any order."""
        return _split_terms(self.text)

    @property
    def columns(self) -> dict[str, str]:
        """Return the values that columns must have, apart from the risk, which has two columns."""
        named = {"queue__slug": self.queue, "reason": self.reason, "agent__slug": self.agent}
        return {column: asked for column, asked in named.items() if asked}

    @cached_property
    def labels(self) -> list[tuple[int, str, str]]:
        """Return agent, name and sentence of the call labels, which a search compares; they are read once for all lists."""
        return list(CallLabel.objects.values_list("agent", "name", "sentence")[:MAX_LABELS])

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
        return _("it contains a character that cannot be stored")
    if len(text) > MAX_TEXT_LENGTH:
        return _("it is longer than {number} characters").format(number=MAX_TEXT_LENGTH)
    if len(_split_terms(text)) > MAX_TERMS:
        return _("it has more than {number} terms").format(number=MAX_TERMS)
    return ""


def _split_terms(text: str) -> list[str]:
    return [quoted or term for quoted, term in _TERM.findall(text)]


def apply_filters(waits: QuerySet[Interrupt], filters: InboxFilters, *, order: tuple[str, ...]) -> QuerySet[Interrupt]:
    """Return the requests that pass. With search terms, only the first ``SEARCHED`` rows in ``order`` are searched, and
    those that a term names by an id.
    """
    waits = waits.filter(**filters.columns)
    if filters.risk:
        waits = waits.filter(risk=filters.risk)
    if not filters.terms:
        return waits
    first = Interrupt.objects.filter(pk__in=waits.order_by(*order)[:SEARCHED].values("pk")).values("pk")
    found = waits.filter(pk__in=named_keys(filters.terms)).order_by().values("pk")
    return search(Interrupt.objects.filter(pk__in=first.union(found)), filters)


def search(looked_at: QuerySet[Interrupt], filters: InboxFilters) -> QuerySet[Interrupt]:
    """Return those of these requests that contain every search term."""
    if not filters.terms:
        return looked_at
    call = Substr(Cast("proposal", TextField()), 1, SEARCHED_OF_A_CALL)
    shown_key = Coalesce("planted__run_key", Value(""))  # as for people; its run has none
    optional = (Coalesce("queue__slug", Value("")), Coalesce(call, Value("")), shown_key)
    searched_text = _JoinedText("title", "reason", "agent__slug", "key", "external_id", "run__key", *optional)
    found = looked_at.alias(call_text=call, searched_text=searched_text)
    labels = filters.labels
    for term in filters.terms:
        is_named = Q(public_id=term) | Q(run__public_id=term)
        found = found.filter(_contains("searched_text", term) | is_named | _has_label(labels, term))
    return found


def named_keys(terms: list[str]) -> QuerySet[Any, Any]:
    """Return a query of the primary keys of requests that a term names: by their id, or by the id or the key of their run.

    Each is a query of its own with an index: joined by OR, they would make PostgreSQL read every request. Permissions are
    not checked.
    """
    by_key = Run.objects.filter(agent__in=Agent.objects.values("pk"), key__in=terms)
    runs = (Run.objects.filter(public_id__in=terms), by_key)
    found = [Interrupt.objects.filter(run__in=of.values("pk")).values("pk") for of in runs]
    found.append(
        Interrupt.objects.filter(pk__in=PlantedRequest.objects.filter(run_key__in=terms).values("interrupt")).values(
            "pk"
        )
    )
    return Interrupt.objects.filter(public_id__in=terms).values("pk").union(*found)


def _contains(member: str, term: str) -> Q:
    """Return the filter for a term inside a text. SQLite's LIKE ignores case only for ASCII letters.

    A call is stored as JSON, in which a backslash and a quotation mark are escaped.
    """
    wanted = Q()
    for text in dict.fromkeys([term, exact_json.dumps(term)[1:-1]]):
        is_regex = connection.vendor == "sqlite"
        wanted |= Q(**{f"{member}__iregex": re.escape(text)} if is_regex else {f"{member}__icontains": text})
    return wanted


def _has_label(labels: list[tuple[Any, ...]], term: str) -> Q:
    """Return the filter for calls whose label contains the term."""
    wanted = Q(pk__in=[])
    for agent, name, sentence in labels:
        if term.casefold() in sentence.casefold():
            wanted |= Q(agent=agent, call_text__contains=f'"name":{exact_json.dumps(name)}')
    return wanted
