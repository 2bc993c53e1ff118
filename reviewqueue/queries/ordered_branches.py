"""Long lists as a union of short ordered reads: one branch for each index range that a person may see.

An OR of "in my queues", "of my agents" and "started by me" cannot use an index in its order, so PostgreSQL walks all rows
until a page is full. Each branch reads one range of an index in order and stops at the page's length.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from django.core.exceptions import EmptyResultSet
from django.db import connection, connections
from django.db.models import BigIntegerField, Q, QuerySet
from django.db.models.expressions import RawSQL

from reviewqueue.queries.replica import reading_alias

#: Branches of one statement; SQLite allows 500, and limits the parameters.
MAX_BRANCHES = 100

Statement = tuple[str, list[Any]]


def compile_branch(
    rows: QuerySet[Any], order: Sequence[str], limit: int, *, all_null: Sequence[str] = ()
) -> Statement | None:
    """Return the SQL of the first rows: the columns of the sort key, with the primary key last; ``None`` if it is empty.

    ``all_null``: columns of the index before the sort key that the rows have as NULL. PostgreSQL uses the order of the
    index only if it sorts by them too.
    """
    columns = [name.lstrip("-") for name in order]
    first = rows.order_by(*all_null, *order).values_list(*columns)[:limit]
    try:
        text, params = first.query.get_compiler(connection=connection).as_sql()
    except EmptyResultSet:
        return None
    return str(text), list(params)


def _merged(branches: Sequence[Statement], order: Sequence[str], limit: int, *, is_distinct: bool = False) -> Statement:
    """Return the SQL of the first rows of at most ``MAX_BRANCHES`` branches, in order."""
    keys = ", ".join(f"{place}{' DESC' if name.startswith('-') else ''}" for place, name in enumerate(order, start=1))
    all_rows = " UNION " if is_distinct else " UNION ALL "
    union = all_rows.join(f"SELECT * FROM ({text}) AS branch_{at}" for at, (text, _) in enumerate(branches))  # noqa: S608  our own
    return f"{union} ORDER BY {keys} LIMIT {int(limit)}", [param for _, params in branches for param in params]


def _parts(branches: Sequence[Statement]) -> Iterator[Sequence[Statement]]:
    """Return the branches by statement: their number, and so that of the parameters, is limited on SQLite."""
    for at in range(0, len(branches), MAX_BRANCHES):
        yield branches[at : at + MAX_BRANCHES]


def first_keys(
    branches: Sequence[Statement], order: Sequence[str], limit: int, *, is_distinct: bool = False
) -> list[int]:
    """Return the primary keys of the first rows of all branches, in order. The sort key ends with the primary key.

    ``is_distinct``: branches may overlap, and each key is returned once.
    """
    found: list[tuple[Any, ...]] = []
    for part in _parts(branches):
        text, params = _merged(part, order, limit, is_distinct=is_distinct)
        with connections[reading_alias()].cursor() as cursor:
            cursor.execute(text, params)
            found += cursor.fetchall()
    if len(branches) > MAX_BRANCHES:
        for place, name in reversed(list(enumerate(order))):
            found.sort(key=lambda row, at=place: row[at], reverse=name.startswith("-"))  # type: ignore[misc]
    keys = [row[-1] for row in found]
    return (list(dict.fromkeys(keys)) if is_distinct else keys)[:limit]


def count_keys(branches: Sequence[Statement], order: Sequence[str], limit: int) -> int:
    """Return how many rows all branches have, up to ``limit``."""
    number = 0
    for part in _parts(branches):
        text, params = _merged(part, order, limit)
        with connections[reading_alias()].cursor() as cursor:
            cursor.execute(f"SELECT count(*) FROM ({text}) AS counted", params)  # noqa: S608  our own
            number += int(cursor.fetchone()[0])
    return min(number, limit)


def keys_subquery(branches: Sequence[Statement], order: Sequence[str], limit: int) -> RawSQL:
    """Return the primary keys of the first rows as a subquery."""
    if len(branches) > MAX_BRANCHES:
        keys = ", ".join(str(int(key)) for key in first_keys(branches, order, limit)) or "NULL"
        return RawSQL(keys, [], output_field=BigIntegerField())  # noqa: S611  numbers
    text, params = _merged(branches, order, limit)
    last = connection.ops.quote_name(order[-1].lstrip("-"))
    return RawSQL(f"SELECT {last} FROM ({text}) AS merged", params, output_field=BigIntegerField())  # noqa: S608, S611  our own


def compile_branches(rows: QuerySet[Any], ranges: Iterable[Q], order: Sequence[str], limit: int) -> list[Statement]:
    """Return the SQL of the rows of each range, without empty ones."""
    found = (compile_branch(rows.filter(each), order, limit) for each in ranges)
    return [statement for statement in found if statement is not None]


def first_rows_keys(rows: QuerySet[Any, Any], ranges: Iterable[Q], order: Sequence[str], limit: int) -> list[int]:
    """Return the primary keys of the first rows of all ranges. The ranges must not overlap."""
    return first_keys(compile_branches(rows, ranges, order, limit), order, limit)
