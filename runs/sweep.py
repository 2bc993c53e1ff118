"""How a sweep takes its rows: each by itself, and one that breaks is put off, so that it cannot stop the others.

Called by every sweep over waits and runs (``expiry``, ``nesting``). What is due, and what is done about it, is theirs; so is
the lock, and they skip a row whose lock somebody has: it is due again a second later, and a holder that was frozen would
hold up every other row behind it.
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

logger = logging.getLogger(__name__)

PUT_OFF = timedelta(minutes=5)


def take_each(rows: QuerySet[Any], due: Q, order: str, end_one: Callable[[int], bool], *, limit: int) -> int:
    """Take up to ``limit`` due rows, each by itself, and return how many were ended; one that breaks is put off and logged.

    Its deadline stays what it was: putting off a sweep must not let a late answer in. Of rows that are due together any may
    be the next one: two sweeps that went by the same order would follow each other from lock to lock. One that finds a row
    taken looks which are left.
    """
    ended, seen = 0, set[int]()
    left = _some(rows.filter(due), order, limit)
    while left and len(seen) < limit:
        pk = left.pop()
        seen.add(pk)
        try:
            was_ended = end_one(pk)
        except Busy:  # it is due again a second later; nothing is wrong with it
            continue
        except Exception:
            logger.exception("a due row broke", extra={"pk": pk})
            rows.filter(pk=pk).update(sweep_after=clock.now() + PUT_OFF)
            continue
        ended += was_ended
        if not was_ended:
            left = [pk for pk in _some(rows.filter(due), order, limit) if pk not in seen]
    return ended


def _some(due_rows: QuerySet[Any], order: str, limit: int) -> list[int]:
    found = list(due_rows.order_by(order).values_list("pk", flat=True)[:limit])
    random.shuffle(found)
    return found


def not_put_off(before: datetime) -> Q:
    """Return the filter for rows that no sweep broke on of late."""
    return Q(sweep_after=None) | Q(sweep_after__lte=before)
