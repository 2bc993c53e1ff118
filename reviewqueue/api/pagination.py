"""Lists, a page at a time by keyset: `next` names the last row seen, so a page costs the same wherever it is.

Also the query's other members: known ones only, each once, as strict as a body's. Called by the views that list.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Any, TypeVar

from django.db.models import Model, QuerySet
from rest_framework.request import Request

from ledger.errors import PayloadInvalid, Problem

DEFAULT_LIMIT, MOST = 50, 100
LONGEST_VALUE = 500

M = TypeVar("M", bound=Model)


def query_of(request: Request, *known: str) -> dict[str, str]:
    """Return the query's members. Refuses an unknown, doubled or unprintable one: a misspelt filter must not mean "all"."""
    query = request.query_params
    for name, values in query.lists():
        if name not in known:
            raise _refused(name, f"is not known here; known: {', '.join(known) or 'none'}")
        if len(values) != 1:
            raise _refused(name, "is given twice")
        if len(values[0]) > LONGEST_VALUE or not values[0].isprintable():
            raise _refused(name, "is not a value that can be looked for")
    return {name: query[name] for name in query}


def whole(query: dict[str, str], name: str, *, default: int, least: int, most: int) -> int:
    """Return a whole number of the query."""
    text = query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 12 and least <= int(text) <= most):
        raise _refused(name, f"has to be a whole number between {least} and {most}")
    return int(text)


def page(
    rows: QuerySet[M], query: dict[str, str], *, name: str, row: Callable[[M], dict[str, Any]], by: str = "-id"
) -> dict[str, Any]:
    """Return one page of ``rows`` under ``name``, and the cursor of the next; `null` after the last."""
    limit = whole(query, "limit", default=DEFAULT_LIMIT, least=1, most=MOST)
    field = by.lstrip("-")
    if "next" in query:
        rows = rows.filter(**{f"{field}__{'lt' if by.startswith('-') else 'gt'}": _place(query["next"])})
    found = list(rows.order_by(by)[: limit + 1])
    more = len(found) > limit
    shown = found[:limit]
    return {name: [row(one) for one in shown], "next": _cursor(getattr(shown[-1], field)) if more else None}


def _cursor(place: int) -> str:
    return base64.urlsafe_b64encode(f"rq{place}".encode()).decode().rstrip("=")


def _place(cursor: str) -> int:
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode("ascii")
    except (binascii.Error, ValueError):
        text = ""
    number = text.removeprefix("rq")
    if not text.startswith("rq") or not number.isdigit() or len(number) > 18:
        raise _refused("next", "is not the next of an earlier page")
    return int(number)


def _refused(name: str, message: str) -> PayloadInvalid:
    shown = ascii(name)[1:-1][:60]
    return PayloadInvalid(f"The query's {shown} {message}.", errors=[Problem("", f"?{shown} {message}")])
