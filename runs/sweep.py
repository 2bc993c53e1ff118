"""Sweeps: process due rows one at a time, each in its own transaction, and defer a row that fails.

The callers define what is due and what is done. They skip a row that another transaction has locked: it is due again a
second later, and a frozen transaction must not stop the sweep.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q, QuerySet

from ledger import clock
from ledger.errors import Busy
from ledger.log_context import part_of_task

logger = logging.getLogger(__name__)

DEFERRED_BY = timedelta(minutes=5)


def sweep_rows(rows: QuerySet[Any], due: Q, order: str, end_one: Callable[[int], bool], *, limit: int) -> int:
    """Process up to ``limit`` due rows, and return the number for which ``end_one`` returned True.

    A row that raises is logged and deferred by ``sweep_after``; its deadline stays, so that no late answer is accepted.
    The rows are shuffled, because two sweeps in the same order would follow each other from lock to lock. After a row
    that was skipped, the due rows are read again.
    """
    ended, seen = 0, set[int]()
    left = _some(rows.filter(due), order, limit)
    while left and len(seen) < limit:
        pk = left.pop()
        seen.add(pk)
        with part_of_task():
            try:
                was_ended = end_one(pk)
            except Busy:  # due again a second later; the row itself has not failed
                continue
            except Exception:
                logger.exception("a due row failed", extra={"pk": pk})
                rows.filter(pk=pk).update(sweep_after=clock.now() + DEFERRED_BY)
                continue
        ended += was_ended
        if not was_ended:
            left = [pk for pk in _some(rows.filter(due), order, limit) if pk not in seen]
    return ended


def _some(due_rows: QuerySet[Any], order: str, limit: int) -> list[int]:
    found = list(due_rows.order_by(order).values_list("pk", flat=True)[:limit])
    random.shuffle(found)
    return found


def has_rows(due_rows: QuerySet[Any], order: str) -> bool:
    """Tell whether a row is due, in the order of the index of due rows.

    ``exists`` drops the order. PostgreSQL then estimates that many rows are due, and reads all open ones to find none.
    """
    return bool(due_rows.order_by(order).values_list("pk", flat=True)[:1])


def not_deferred(before: datetime) -> Q:
    """Return the filter for rows that are not deferred."""
    return Q(sweep_after=None) | Q(sweep_after__lte=before)
