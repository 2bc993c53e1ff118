"""Transactions: a use case opens one, and the functions it calls assert that one is open.

``use_case`` wraps each public use case in a durable transaction. It is tried three times if the database asks for it
(serialization failure, deadlock, SQLite busy, a changed table, a row that a concurrent transaction inserted) and is
then refused as ``busy``. Outbound calls assert that no transaction is open.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import ParamSpec, TypeVar

from django.db import OperationalError, connection, transaction

from ledger import row_digests, write_batch
from ledger.errors import Busy, Refusal
from ledger.pause import pause
from ledger.prepared_queries import RowExists, StalePreparedStatement

P = ParamSpec("P")
T = TypeVar("T")

TRIES = 3
RETRYABLE_SQLSTATES = {"40001", "40P01"}


def use_case(function: Callable[P, T | Refusal]) -> Callable[P, T]:
    """Run ``function`` in its own durable transaction.

    A ``Refusal`` that it *returns* is raised after the commit, so that its record stays; one that it raises rolls back.
    Raises ``Busy`` after three failed tries.
    """

    @functools.wraps(function)
    def inside(*args: P.args, **kwargs: P.kwargs) -> T:
        for attempt in range(1, TRIES + 1):
            row_digests.forget_written_rows()
            try:
                with transaction.atomic(durable=True), write_batch.collecting():
                    outcome = function(*args, **kwargs)
                    _refuse_unrecorded()
                break
            except OperationalError as error:
                if not _is_retryable(error):
                    raise
                if attempt == TRIES:
                    raise Busy from error
                pause(random.uniform(0.005, 0.05) * attempt)  # noqa: S311  only jitter
        if isinstance(outcome, Refusal):
            raise outcome
        return outcome

    return inside


@contextmanager
def snapshot() -> Iterator[None]:
    """Read in one transaction that sees the database as of its first query. It locks no row and stops no writer.

    Inside another transaction, which only tests have, the block reads what that transaction sees.
    """
    with ExitStack() as opened:
        if not connection.in_atomic_block:
            _begin_snapshot(opened)
        yield


def _begin_snapshot(opened: ExitStack) -> None:
    if connection.vendor == "postgresql":
        opened.enter_context(transaction.atomic(durable=True))
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        return
    connection.ensure_connection()  # which sets the mode
    mode = connection.transaction_mode  # type: ignore[attr-defined]
    connection.transaction_mode = "DEFERRED"  # type: ignore[attr-defined]  # IMMEDIATE takes the write lock
    try:
        opened.enter_context(transaction.atomic(durable=True))
    finally:
        connection.transaction_mode = mode  # type: ignore[attr-defined]


def _refuse_unrecorded() -> None:
    """Raise if a covered row was written and no event recorded it: verification would report the row as changed."""
    left = row_digests.list_unrecorded_parts()
    if left:
        raise RuntimeError(f"No event records these rows: {', '.join(left)}")


def assert_in_transaction() -> None:
    """Raise outside a transaction, where a row lock would be released at once."""
    if not connection.in_atomic_block:
        raise RuntimeError("This function must be called inside the transaction of a use case.")


def assert_no_transaction() -> None:
    """Raise inside a transaction: a slow receiver of an outbound call would keep the locks held."""
    if any(not block._from_testcase for block in connection.atomic_blocks):  # type: ignore[attr-defined]
        raise RuntimeError("An outbound call must not be made inside a transaction.")


def _is_retryable(error: OperationalError) -> bool:
    if isinstance(error, StalePreparedStatement | RowExists):
        return True
    state = getattr(error.__cause__, "sqlstate", None)
    return state in RETRYABLE_SQLSTATES or "database is locked" in str(error)
