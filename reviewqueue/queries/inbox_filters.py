"""What a person narrows the inbox to: a queue, a reason, a risk, an agent, words. Read-only.

Called by ``inbox``, ``tallies`` and the pages; a filter only takes rows away from what ``authority`` lets a person see.
Words are looked for as they are typed: no character is a wildcard, and large and small letters are the same on both
databases. Only the first waits of a list are searched, so that no search is slow.
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

SEARCHED = 10_000  # waits of a list, in its order
SEARCHED_OF_A_CALL = 4_000  # characters: a letter of a megabyte is not searched to its end
LONGEST_TEXT = 100
MOST_WORDS = 8
MOST_LABELS = 500
_CONTROL = re.compile("[\x00-\x08\x0e-\x1f\x7f\ud800-\udfff]")


@dataclass(frozen=True, kw_only=True)
class Filters:
    """What is asked for; an empty text asks for nothing."""

    queue: str = ""
    reason: str = ""
    risk: str = ""
    agent: str = ""
    text: str = ""

    @property
    def any(self) -> bool:
        """Say whether anything is narrowed."""
        return self != Filters()

    @property
    def words(self) -> list[str]:
        """Return the words that all have to be found, in any order."""
        return self.text.split()

    def but(self, **changed: str) -> Filters:
        """Return these filters with some of them changed."""
        return replace(self, **changed)

    def fits(self, *, queue: str, reason: str, risk: str, agent: str) -> bool:
        """Say whether waits of this kind pass, their words apart."""
        wanted = ((self.queue, queue), (self.reason, reason), (self.risk, risk), (self.agent, agent))
        return all(asked in ("", found) for asked, found in wanted)


def fault_of(text: str) -> str:
    """Return why a text cannot be searched for, or nothing."""
    if _CONTROL.search(text):
        return "it holds a character that no text here can hold"
    if len(text) > LONGEST_TEXT:
        return f"it is longer than {LONGEST_TEXT} characters"
    return f"it has more than {MOST_WORDS} words" if len(text.split()) > MOST_WORDS else ""


def narrow(waits: QuerySet[Interrupt], filters: Filters, *, order: tuple[str, ...]) -> QuerySet[Interrupt]:
    """Return the waits that pass. ``order`` is the list's: with words, only its first ``SEARCHED`` are looked at."""
    named = {
        "queue__slug": filters.queue,
        "reason": filters.reason,
        "risk": filters.risk,
        "agent__slug": filters.agent,
    }
    waits = waits.filter(**{member: asked for member, asked in named.items() if asked})
    if not filters.words:
        return waits
    looked_at = Interrupt.objects.filter(pk__in=waits.order_by(*order)[:SEARCHED].values("pk"))
    call = Substr(Cast("proposal", TextField()), 1, SEARCHED_OF_A_CALL)
    members: list[Any] = ["title", "reason", "agent__slug", "queue__slug", call]
    told = Concat(*(part for member in members for part in (member, Value(" "))), output_field=TextField())
    found = looked_at.alias(call_text=call, told=told)
    labels = list(CallLabel.objects.values_list("agent", "name", "sentence")[:MOST_LABELS])
    for word in filters.words:
        found = found.filter(_holds("told", word) | Q(public_id=word) | _is_labelled(labels, word))
    return found


def _holds(member: str, word: str) -> Q:
    """Return the filter for a word inside a text. SQLite's LIKE knows the case of English letters alone."""
    if connection.vendor == "sqlite":
        return Q(**{f"{member}__iregex": re.escape(word)})
    return Q(**{f"{member}__icontains": word})


def _is_labelled(labels: list[tuple[Any, ...]], word: str) -> Q:
    """Return the filter for calls whose owner's sentence holds the word."""
    wanted = Q(pk__in=[])
    for agent, name, sentence in labels:
        if word.casefold() in sentence.casefold():
            wanted |= Q(agent=agent, call_text__contains=f'"name":{exact_json.dumps(name)}')
    return wanted
