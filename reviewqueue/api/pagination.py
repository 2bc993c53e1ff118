"""Keyset pagination: `next` is the id of the last row, so every page of a list costs the same.

DRF's CursorPagination was not used: its cursors are positions of a column's value, so rows with the same value are counted
by an offset; and it cannot end a page early because of the size of its rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from django.db.models import Model, Q, QuerySet, TextField
from django.db.models.expressions import Combinable
from django.db.models.functions import Cast, Coalesce, Length

from reviewqueue.api.base_view import integer_parameter, invalid_query, text_parameter
from reviewqueue.queries.ordered_branches import first_rows_keys
from reviewqueue.queries.pagination import find_primary_key

DEFAULT_LIMIT, MAX_LIMIT = 50, 100
#: Characters of stored values on one page of rows of any size; a page has at least one row.
STORED_CHARACTERS = 1_000_000

LIMIT = integer_parameter("limit", "Rows on a page.", default=DEFAULT_LIMIT, min_value=1, max_value=MAX_LIMIT)
NEXT = text_parameter("next", "`next` of the page before.")
PAGE = (LIMIT, NEXT)

M = TypeVar("M", bound=Model)
R = TypeVar("R")


@dataclass(frozen=True, kw_only=True)
class ListPage(Generic[R]):
    """One page of a list. ``next`` is the cursor of the next page, and ``None`` on the last."""

    rows: Iterable[R]
    next: str | None


def page(
    rows: QuerySet[M],
    query: dict[str, str],
    *,
    by: str = "-id",
    sized: str | Combinable = "",
    ranges: Sequence[Q] | None = None,
) -> ListPage[M]:
    """Return one page of ``rows``, ordered by the column ``by``.

    ``sized``: a text column that may be long, or an expression for the characters of several. The page then ends before
    ``STORED_CHARACTERS`` are exceeded.
    ``ranges``: the rows are those of these ranges, which do not overlap; each is read in the order of its index.
    """
    limit = LIMIT.read(query)
    field = by.lstrip("-")
    if "next" in query:
        place = place_of(rows.model, query["next"])
        rows = rows.filter(**{f"{field}__{'lt' if by.startswith('-') else 'gt'}": place})
    if ranges is not None:
        rows = rows.filter(pk__in=first_rows_keys(rows.select_related(None), ranges, (by,), limit + 1))
    rows = rows.order_by(by)
    if sized:
        fitting, more = _find_fitting(rows, sized, limit)
        shown = list(rows.filter(pk__in=fitting))
    else:
        found = list(rows[: limit + 1])
        shown, more = found[:limit], len(found) > limit
    return ListPage(rows=shown, next=_cursor(shown[-1], field) if more else None)


def _find_fitting(rows: QuerySet[M], sized: str | Combinable, limit: int) -> tuple[list[int], bool]:
    """Return the primary keys of the first rows that fit on a page by their size, and whether there are more rows."""
    measure = Coalesce(Length(Cast(sized, TextField())), 0) if isinstance(sized, str) else sized
    sizes = list(rows.values_list("pk", measure)[: limit + 1])
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


def place_of(model: type[Model], cursor: str) -> int:
    """Return the place that a cursor names. A row that has left the list since still has its place."""
    place: int | None = None
    if hasattr(model, "public_id"):
        place = find_primary_key(model, cursor)
    elif cursor.isascii() and cursor.isdigit() and len(cursor) <= 18:
        place = int(cursor)
    if place is None:
        raise invalid_query("next", "must be the `next` of an earlier page")
    return place
