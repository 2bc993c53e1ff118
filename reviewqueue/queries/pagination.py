"""Pagination of page lists by the public id of the last row.

A primary key in a URL would reveal how many rows the installation has, and how many are added between two visits.
"""

from __future__ import annotations

import re
from typing import TypeVar

from django.db.models import Model, QuerySet

M = TypeVar("M", bound=Model)

PUBLIC_ID = re.compile(r"[a-z]{1,8}_[0-9a-z]{1,40}")


def find_primary_key(model: type[Model], public_id: str) -> int | None:
    """Return the primary key of the row with this public id; ``None`` if the id is malformed or unknown."""
    if not PUBLIC_ID.fullmatch(public_id):
        return None
    found: int | None = model._default_manager.filter(public_id=public_id).values_list("pk", flat=True).first()
    return found


def older_than(rows: QuerySet[M], after: str) -> QuerySet[M]:
    """Return the rows older than the last row of a page; all rows if there is no such row."""
    pk = find_primary_key(rows.model, after) if after else None
    return rows if pk is None else rows.filter(pk__lt=pk)
