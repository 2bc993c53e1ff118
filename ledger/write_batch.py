"""Write batch: writes of a use case that PostgreSQL executes as one statement, a data-modifying WITH.

``insert_later`` and ``update_later`` collect writes. They are executed before the next statement of the connection, so
every read sees them, and before the commit. Outside a use case, and on SQLite, each is executed at once. The parts of
one statement see the same snapshot: a write to a table that a collected update writes, and an update of a table with
any collected write, therefore begin a new statement.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.models import Model
from django.db.models.constants import OnConflict

from ledger import prepared_queries
from ledger.prepared_queries import PreparedUpdate, RowExists

M = TypeVar("M", bound=Model)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Write:
    """A collected write. ``inserts`` is the new row, which gets its primary key; ``changed`` fails an update of no row.

    ``values`` is ``None`` for a row that is inserted with the columns that it has when the statement is executed.
    """

    table: str
    text: str
    values: list[Any] | None
    inserts: Model | None = None
    changed: str = ""


def insert_later(row: M) -> M:
    """Insert a row, in one statement with the other writes. It may have no primary key until the next statement.

    Until then no other inserted row can refer to it: ``insert_statement`` raises ``RuntimeError``.
    """
    batch = _batch()
    if batch is None:
        return prepared_queries.insert_row(row)
    here = connections[DEFAULT_DB_ALIAS]
    text, values = prepared_queries.insert_statement(row, here)
    row._state.adding, row._state.db = False, here.alias
    batch.add(_Write(table=row._meta.db_table, text=text, values=values, inserts=row))
    return row


def insert_if_new_later(row: Model) -> None:
    """Insert a numbered row, in one statement with the other writes, and with the columns that it has at that time.

    While it ``is_collected``, it needs no update. If a unique constraint prevents the insert, ``RowExists`` is raised,
    and the use case tries again: the rows of the statement that name this one are rolled back.
    """
    batch = _batch()
    if batch is None or row.pk is None:
        if not prepared_queries.insert_row_if_new(row):
            raise RowExists(f"{type(row).__name__}: the row exists")
        return
    here = connections[DEFAULT_DB_ALIAS]
    text, _ = prepared_queries.insert_statement(row, here, OnConflict.IGNORE)
    row._state.adding, row._state.db = False, here.alias
    batch.add(_Write(table=row._meta.db_table, text=text, values=None, inserts=row))


def is_collected(row: Model) -> bool:
    """Tell whether ``insert_if_new_later`` still has the row, so that the insert writes its present columns."""
    batch = _batch()
    return batch is not None and batch.has(row)


def update_later(update: PreparedUpdate, *, changed: str = "", **values: Any) -> None:
    """Execute an update, in one statement with the other writes.

    ``changed`` is the message of the ``RuntimeError`` for an update that does not find exactly one row.
    """
    batch = _batch()
    if batch is None:
        if update.write(**values) != 1 and changed:
            raise RuntimeError(changed)
        return
    table, text, converted = update.statement(connections[DEFAULT_DB_ALIAS], values)
    batch.add(_Write(table=table, text=f'{text} RETURNING 1 AS "id"', values=converted, changed=changed))


def notify_later(channel: str, payload: str) -> None:
    """Send a notification of PostgreSQL with the commit; other databases have none."""
    here = connections[DEFAULT_DB_ALIAS]
    if here.vendor != "postgresql":
        return
    batch = _batch()
    if batch is not None:
        batch.notifications.setdefault((channel, payload))
        return
    with prepared_queries.executed("SELECT pg_notify(%s, %s)", [channel, payload], here):
        pass


@contextmanager
def collecting() -> Iterator[None]:
    """Collect writes on PostgreSQL, and execute the rest at the end of the block."""
    here = connections[DEFAULT_DB_ALIAS]
    if here.vendor != "postgresql":
        yield
        return
    batch = _of_thread.batch = _Batch()
    try:
        with here.execute_wrapper(batch.execute_before):
            yield
            if not here.needs_rollback:
                batch.execute()
    finally:
        _of_thread.batch = None


_of_thread = threading.local()  # a thread has one connection


def _batch() -> _Batch | None:
    return getattr(_of_thread, "batch", None)


class _Batch:
    """The collected writes of a transaction."""

    def __init__(self) -> None:
        self._writes: list[_Write] = []
        self._tables: set[str] = set()
        self._updated: set[str] = set()
        self.notifications: dict[tuple[str, str], None] = {}

    def add(self, write: _Write) -> None:
        if write.table in (self._updated if write.inserts else self._tables):
            self.execute()
        self._writes.append(write)
        self._tables.add(write.table)
        if write.inserts is None:
            self._updated.add(write.table)

    def has(self, row: Model) -> bool:
        return any(write.inserts is row and write.values is None for write in self._writes)

    def execute_before(self, execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: Any) -> Any:
        """Execute the collected writes before another statement."""
        if self._writes:
            self.execute()
        return execute(sql, params, many, context)

    def execute(self) -> None:
        writes, self._writes, self._tables, self._updated = self._writes, [], set(), set()
        notifications, self.notifications = self.notifications, {}
        if not writes and not notifications:
            return
        inserts = tuple(write.inserts is not None for write in writes)
        text = _combined(tuple(write.text for write in writes), inserts, len(notifications))
        here = connections[DEFAULT_DB_ALIAS]
        values = [value for write in writes for value in _values_of(write, here)]
        values += [value for notification in notifications for value in notification]
        with prepared_queries.executed(text, values, here) as cursor:
            found = cursor.fetchone()
        for write, number in zip(writes, found, strict=False):  # the results of the notifications follow
            if write.inserts is not None:
                if number is None:
                    raise RowExists(f"{type(write.inserts).__name__}: the row exists")
                write.inserts.pk = number
            elif write.changed and number != 1:
                raise RuntimeError(write.changed)


def _values_of(write: _Write, here: Any) -> list[Any]:
    if write.values is not None or write.inserts is None:
        return write.values or []
    return prepared_queries.insert_statement(write.inserts, here, OnConflict.IGNORE)[1]


@functools.lru_cache(maxsize=256)
def _combined(texts: tuple[str, ...], inserts: tuple[bool, ...], notifications: int) -> str:
    """Return one statement of the texts, whose row has the primary key of each insert and the number of each update.

    The selects of the last line read the parts in order, so rows of one table get ascending keys.
    """
    parts = ", ".join(f"w{place} AS ({text})" for place, text in enumerate(texts))
    numbers = [f'{"min" if inserted else "count"}("id") FROM w{place}' for place, inserted in enumerate(inserts)]
    results = [f"(SELECT {number})" for number in numbers] + ["pg_notify(%s, %s)"] * notifications
    return f"{f'WITH {parts} ' if texts else ''}SELECT {', '.join(results)}"
