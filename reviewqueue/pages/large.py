"""A large call value by value: each with the way to it, searched by way or words, page by page. Works without JavaScript.

Called by ``urls`` and, for the size and the link, by ``waits``. What the panel folds stands here in full.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from django.http import Http404, HttpResponse
from django.views.decorators.http import require_safe

from ledger import exact
from reviewqueue import gateway
from reviewqueue.pages.showing import PageRequest, foreign_is_missing, show
from reviewqueue.pages.values import size_in_words
from runs.schemas.walking import join_pointer

LARGE_FROM = 8_000  # bytes of JSON text
ROWS = 100
LONGEST_SEARCH = 200


@dataclass(frozen=True, kw_only=True)
class Leaf:
    """One value without parts and the way to it, a JSON Pointer (RFC 6901)."""

    pointer: str
    value: Any

    def holds(self, words: str) -> bool:
        """Say whether the way or the value has these words in it, whatever their case."""
        text = self.value if isinstance(self.value, str) else exact.dumps(self.value)
        return words in self.pointer.casefold() or words in text.casefold()


def size_of(proposal: Any) -> int:
    """Return the bytes of a call's JSON text, 0 for no call."""
    return 0 if proposal is None else len(exact.dumps(proposal["arguments"]).encode("utf-8", "surrogatepass"))


@require_safe
@foreign_is_missing
def call(request: PageRequest, interrupt_id: str) -> HttpResponse:
    """Show the arguments of a wait's call value by value."""
    interrupt = gateway.find_visible(request.user, interrupt_id)
    if interrupt.proposal is None:
        raise Http404
    arguments = interrupt.proposal["arguments"]
    words = request.GET.get("find", "")[:LONGEST_SEARCH]
    first = _first(request.GET.get("from", ""))
    found = [leaf for leaf in leaves(arguments) if not words or leaf.holds(words.casefold())]
    context = {
        "section": "inbox",
        "interrupt": interrupt,
        "name": interrupt.proposal["name"],
        "size": size_in_words(arguments),
        "find": words,
        "number": len(found),
        "rows": list(islice(found, first, first + ROWS)),
        "first": first,
        "last": min(first + ROWS, len(found)),
        "before": max(0, first - ROWS) if first else None,
        "after": first + ROWS if len(found) > first + ROWS else None,
    }
    return show(request, "interrupt/call.html", context)


def leaves(value: Any, pointer: str = "") -> Iterator[Leaf]:
    """Yield every value without parts, in stored order; an empty object or list counts as one."""
    waiting: list[tuple[str, Any]] = [(pointer, value)]
    while waiting:
        at, found = waiting.pop()
        if isinstance(found, dict) and found:
            waiting += [(join_pointer(at, name), member) for name, member in reversed(found.items())]
        elif isinstance(found, list) and found:
            waiting += [(join_pointer(at, place), found[place]) for place in range(len(found) - 1, -1, -1)]
        else:
            yield Leaf(pointer=at, value=found)


def _first(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 8 else 0
