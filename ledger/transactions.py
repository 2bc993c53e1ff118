"""Transactions: opened once, by the use case; what it calls asserts that one is open.

``use_case`` wraps every public verb that is somebody's whole request: a durable transaction, tried three times when the
database asks for it (serialization failure, deadlock, SQLite busy, a changed table), then refused as ``busy``. A verb
below never opens one. Outbound calls assert that none is open.
"""

from __future__ import annotations

import functools
import random
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from django.db import OperationalError, connection, transaction

from ledger import row_digests
from ledger.errors import Busy, Refusal

P = ParamSpec("P")
T = TypeVar("T")

TRIES = 3
RETRYABLE_SQLSTATES = {"40001", "40P01"}


class PlanIsOld(OperationalError):
    """A table has changed under a prepared statement: what the connection prepared is forgotten by the rollback."""


def use_case(verb: Callable[P, T | Refusal]) -> Callable[P, T]:
    """Run ``verb`` in its own durable transaction.

    A ``Refusal`` that the verb *returns* is raised after the commit, so that what it recorded stays; one that it raises
    rolls everything back. Raises ``Busy`` when the database gave up three times.
    """

    @functools.wraps(verb)
    def inside(*args: P.args, **kwargs: P.kwargs) -> T:
        for attempt in range(1, TRIES + 1):
            row_digests.forget()
            try:
                with transaction.atomic(durable=True):
                    outcome = verb(*args, **kwargs)
                    _refuse_unrecorded()
                break
            except OperationalError as error:
                if not _worth_another_try(error):
                    raise
                if attempt == TRIES:
                    raise Busy from error
                time.sleep(random.uniform(0.005, 0.05) * attempt)  # noqa: S311  only spreads two losers apart
        if isinstance(outcome, Refusal):
            raise outcome
        return outcome

    return inside


def _refuse_unrecorded() -> None:
    """Stop a verb that wrote a covered row and no event after it: verification would report the row as changed."""
    left = row_digests.not_taken()
    if left:
        raise RuntimeError(f"No event records these rows: {', '.join(left)}")


def assert_open() -> None:
    """Stop a verb that was called outside a transaction: its lock would be let go at once."""
    if not connection.in_atomic_block:
        raise RuntimeError("This verb runs inside the transaction of its use case.")


def assert_none_open() -> None:
    """Stop an outbound call inside a transaction: a slow receiver would hold our locks."""
    if any(not block._from_testcase for block in connection.atomic_blocks):  # type: ignore[attr-defined]
        raise RuntimeError("No outbound call inside a transaction.")


def _worth_another_try(error: OperationalError) -> bool:
    if isinstance(error, PlanIsOld):
        return True
    state = getattr(error.__cause__, "sqlstate", None)
    return state in RETRYABLE_SQLSTATES or "database is locked" in str(error)
