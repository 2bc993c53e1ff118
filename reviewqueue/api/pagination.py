"""Lists, a page at a time by keyset: `next` names the last row seen, so a page costs the same wherever it is.

Also the query's other members: known ones only, each once, as strict as a body's. Called by the views that list.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from django.db.models import Model, QuerySet, TextField
from django.db.models.functions import Cast, Coalesce, Length
from rest_framework.request import Request

from ledger.errors import PayloadInvalid, Problem
from reviewqueue.queries.pagination import find_primary_key

DEFAULT_LIMIT, MOST = 50, 100
#: Characters of stored values on one page of rows of any size; a page has at least one row.
STORED_CHARACTERS = 1_000_000
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
    rows: QuerySet[M],
    query: dict[str, str],
    *,
    name: str,
    row: Callable[[M], dict[str, Any]],
    by: str = "-id",
    sized: str = "",
) -> dict[str, Any]:
    """Return one page of ``rows`` under ``name``, and the cursor of the next; `null` after the last.

    ``sized``: a text column that may be long. The page then ends before ``STORED_CHARACTERS`` of it are exceeded.
    """
    limit = whole(query, "limit", default=DEFAULT_LIMIT, least=1, most=MOST)
    field = by.lstrip("-")
    if "next" in query:
        place = _place(rows.model, query["next"])
        rows = rows.filter(**{f"{field}__{'lt' if by.startswith('-') else 'gt'}": place})
    rows = rows.order_by(by)
    if sized:
        fitting, more = _find_fitting(rows, sized, limit)
        shown = list(rows.filter(pk__in=fitting))
    else:
        found = list(rows[: limit + 1])
        shown, more = found[:limit], len(found) > limit
    return {name: [row(one) for one in shown], "next": _cursor(shown[-1], field) if more else None}


def _find_fitting(rows: QuerySet[M], sized: str, limit: int) -> tuple[list[int], bool]:
    """Return the primary keys of the first rows that fit on a page by their size, and whether there are more rows."""
    sizes = list(rows.values_list("pk", Coalesce(Length(Cast(sized, TextField())), 0))[: limit + 1])
    fitting: list[int] = []
    room = STORED_CHARACTERS
    for pk, size in sizes[:limit]:
        room -= size
        if fitting and room < 0:
            break
        fitting.append(pk)
    return fitting, len(sizes) > len(fitting)


def _cursor(last: Model, field: str) -> str:
    """Return the id of the last row shown: its number would show how many rows others have."""
    return str(getattr(last, "public_id", None) or getattr(last, field))


def _place(model: type[Model], cursor: str) -> int:
    """Return the place that a cursor names; a row that has left the list since still has its place."""
    place: int | None = None
    if hasattr(model, "public_id"):
        place = find_primary_key(model, cursor)
    elif cursor.isascii() and cursor.isdigit() and len(cursor) <= 18:
        place = int(cursor)
    if place is None:
        raise _refused("next", "is not the next of an earlier page")
    return place


def _refused(name: str, message: str) -> PayloadInvalid:
    shown = ascii(name)[1:-1][:60]
    return PayloadInvalid(f"The query's {shown} {message}.", errors=[Problem("", f"?{shown} {message}")])
