"""Long lists as a union of short ordered reads: one branch for each index range that a person may see.

An OR of "in my queues", "of my agents" and "started by me" cannot use an index in its order, so PostgreSQL walks all rows
until a page is full. Each branch reads one range of an index in order and stops at the page's length.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import BigIntegerField, Q, QuerySet
from django.db.models.expressions import RawSQL

#: Branches of one UNION ALL; SQLite allows 500.
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


def merge_branches(branches: Sequence[Statement], order: Sequence[str], limit: int) -> Statement:
    """Return the SQL of the first rows of all branches, in order."""
    if len(branches) > MAX_BRANCHES:
        parts = [branches[at : at + MAX_BRANCHES] for at in range(0, len(branches), MAX_BRANCHES)]
        return merge_branches([merge_branches(part, order, limit) for part in parts], order, limit)
    keys = ", ".join(f"{place}{' DESC' if name.startswith('-') else ''}" for place, name in enumerate(order, start=1))
    union = " UNION ALL ".join(f"SELECT * FROM ({text}) AS branch_{at}" for at, (text, _) in enumerate(branches))  # noqa: S608  our own
    return f"{union} ORDER BY {keys} LIMIT {int(limit)}", [param for _, params in branches for param in params]


def first_keys(
    branches: Sequence[Statement], order: Sequence[str], limit: int, *, is_distinct: bool = False
) -> list[int]:
    """Return the primary keys of the first rows of all branches, in order. The sort key ends with the primary key.

    ``is_distinct``: branches may overlap, and each key is returned once.
    """
    if not branches:
        return []
    text, params = merge_branches(branches, order, limit * len(branches) if is_distinct else limit)
    if is_distinct:
        keys = ", ".join(
            f"{place}{' DESC' if name.startswith('-') else ''}" for place, name in enumerate(order, start=1)
        )
        text = f"SELECT DISTINCT * FROM ({text}) AS merged ORDER BY {keys} LIMIT {int(limit)}"  # noqa: S608  our own
    with connection.cursor() as cursor:
        cursor.execute(text, params)
        return [row[-1] for row in cursor.fetchall()]


def count_keys(branches: Sequence[Statement], order: Sequence[str], limit: int) -> int:
    """Return how many rows all branches have, up to ``limit``."""
    if not branches:
        return 0
    text, params = merge_branches(branches, order, limit)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM ({text}) AS counted", params)  # noqa: S608  our own
        return int(cursor.fetchone()[0])


def keys_subquery(branches: Sequence[Statement], order: Sequence[str], limit: int) -> RawSQL:
    """Return the primary keys of the first rows as a subquery."""
    text, params = merge_branches(branches, order, limit)
    last = connection.ops.quote_name(order[-1].lstrip("-"))
    return RawSQL(f"SELECT {last} FROM ({text}) AS merged", params, output_field=BigIntegerField())  # noqa: S608, S611  our own


def compile_branches(rows: QuerySet[Any], ranges: Iterable[Q], order: Sequence[str], limit: int) -> list[Statement]:
    """Return the SQL of the rows of each range, without empty ones."""
    found = (compile_branch(rows.filter(each), order, limit) for each in ranges)
    return [statement for statement in found if statement is not None]


def first_rows_keys(rows: QuerySet[Any, Any], ranges: Iterable[Q], order: Sequence[str], limit: int) -> list[int]:
    """Return the primary keys of the first rows of all ranges. The ranges must not overlap."""
    return first_keys(compile_branches(rows, ranges, order, limit), order, limit)
