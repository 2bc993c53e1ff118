"""How a sweep takes its rows: each by itself, and one that breaks is put off, so that it cannot stop the others.

Called by every sweep over waits and runs (``expiry``, ``nesting``). What is due, and what is done about it, is theirs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q, QuerySet

from ledger import clock

logger = logging.getLogger(__name__)

PUT_OFF = timedelta(minutes=5)


def take_each(rows: QuerySet[Any], due: Q, order: str, end_one: Callable[[int], bool], *, limit: int) -> int:
    """Take each due row by itself; one that breaks is put off and logged. Returns how many were ended.

    Its deadline stays what it was: putting off a sweep must not let a late answer in.
    """
    ended = 0
    for pk in list(rows.filter(due).order_by(order).values_list("pk", flat=True)[:limit]):
        try:
            ended += end_one(pk)
        except Exception:
            logger.exception("a due row broke", extra={"pk": pk})
            rows.filter(pk=pk).update(sweep_after=clock.now() + PUT_OFF)
    return ended


def not_put_off(before: datetime) -> Q:
    """Return the filter for rows that no sweep broke on of late."""
    return Q(sweep_after=None) | Q(sweep_after__lte=before)
