"""Row counts and run statuses, by which tests see that nothing was stored."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.db import connection

OURS = ("ledger", "runs", "reviewqueue")
#: Changed by reading: when a key was used last, when a person was seen.
NOT_COUNTED = {"reviewqueue.apikey", "reviewqueue.personactivity"}


def rows_of_everything() -> list[Any]:
    """Return the number of rows of each table, and of each run, wait, message and signal what its moves change."""
    tables = [
        model._meta.db_table
        for app in OURS
        for model in apps.get_app_config(app).get_models()
        if model._meta.managed and not model._meta.proxy and model._meta.label_lower not in NOT_COUNTED
    ]
    with connection.cursor() as cursor:
        cursor.execute("SELECT " + ", ".join(f'(SELECT count(*) FROM "{table}")' for table in tables))  # noqa: S608
        found = list(zip(tables, cursor.fetchone(), strict=True))
        cursor.execute("SELECT id, status, timeline_seq, lease_until FROM runs_run ORDER BY id")
        found += cursor.fetchall()
        cursor.execute("SELECT public_id, status, tries FROM reviewqueue_delivery ORDER BY id")
        found += cursor.fetchall()
        cursor.execute("SELECT public_id, status, tries FROM reviewqueue_notificationmessage ORDER BY id")
        found += cursor.fetchall()
        cursor.execute("SELECT public_id, used_by_id, keep_until, misfit FROM runs_signal ORDER BY id")
        found += cursor.fetchall()
        cursor.execute("SELECT id, status, state_version, claimed_until FROM runs_interrupt ORDER BY id")
        return found + cursor.fetchall()
