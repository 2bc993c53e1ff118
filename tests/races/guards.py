"""Remove guards in a racer's process only, to show the race that each guard prevents."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from typing import Any
from unittest import mock

from django.db import connection
from django.db.models import QuerySet

from ledger.prepared_queries import PreparedQuery
from runs import continuations, interrupts
from tests.unguarded import without_triggers


def without_row_locks() -> None:
    """Read without the locks on run, interrupt and effect."""
    QuerySet.select_for_update = lambda rows, **_: rows.all()  # type: ignore[method-assign]
    gc.unfreeze()  # frozen objects (`conftest.py`) are in no list
    for query in gc.get_objects():
        if type(query) is PreparedQuery:  # not isinstance, which wakes every lazy object of a request that is over
            query.forget()


def without_locks_and_comparisons() -> None:
    """Read, check, write: without a lock, and without a comparison in the WHERE of the write."""
    without_row_locks()
    mock.patch.object(interrupts, "_compare_and_set", _set_interrupt).start()
    mock.patch.object(continuations, "_move", _set_continuation).start()


def _set_interrupt(interrupt: Any, _allowed: Any, **fields: Any) -> None:
    type(interrupt).objects.filter(pk=interrupt.pk).update(**fields)
    for name, value in fields.items():
        setattr(interrupt, name, value)


def _set_continuation(run: Any, continuation: Any, verb: str, **fields: Any) -> None:
    _, to = continuations.CONTINUATION_TRANSITIONS[verb]
    type(continuation).objects.filter(pk=continuation.pk).update(status=to, **fields)
    continuation.status = to
    for name, value in fields.items():
        setattr(continuation, name, value)
    run.open_continuation = to if to in continuations.OPEN_CONTINUATIONS else ""


@contextlib.contextmanager
def without_unique(*names: str) -> Iterator[None]:
    """Drop unique constraints or indexes of the test database; restore them after emptying their tables."""
    with connection.cursor() as cursor:
        taken = [_take_out(cursor, name) for name in names]
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            with without_triggers():
                cursor.execute("TRUNCATE runs_run, ledger_effect CASCADE")
            for put_back in taken:
                cursor.execute(put_back)


def _take_out(cursor: Any, name: str) -> str:
    """Drop one and return the statement that restores it."""
    cursor.execute("SELECT conrelid::regclass, pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = %s", [name])
    constraint = cursor.fetchone()
    if constraint is not None:
        table, definition = constraint
        cursor.execute(f'ALTER TABLE {table} DROP CONSTRAINT "{name}"')
        return f'ALTER TABLE {table} ADD CONSTRAINT "{name}" {definition}'
    cursor.execute("SELECT indexdef FROM pg_indexes WHERE indexname = %s", [name])
    [definition] = cursor.fetchone()
    cursor.execute(f'DROP INDEX "{name}"')
    return str(definition)
