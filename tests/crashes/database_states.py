"""Rows of the database before and after an action, exactly or without values that differ each time (ids, digests,
times, builder numbers).

A kill must leave the state before or the one after, and nothing between.
"""

from __future__ import annotations

import functools
import json
import re
from collections import Counter

from django.db import connection

OWN = ("runs_", "ledger_", "reviewqueue_", "django_q_ormq")
#: What the set-up of an organisation made stays.
STAYS = {
    "runs_agent",
    "runs_calllabel",
    "runs_configurationhead",
    "runs_configurationrecord",
    "runs_connection",
    "runs_effectrule",
    "runs_policy",
    "runs_queue",
    "reviewqueue_apikey",
    "reviewqueue_cache",
}
DIFFERS = [
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?"), "TIME"),
    (re.compile(r"\b[a-z]{3}_[0-9a-z]{26}"), "ID"),
    (re.compile(r"\b[0-9a-f]{32,}\b"), "DIGEST"),
    (re.compile(r"\b(run|agent|endpoint|walk)-\d+\b"), "NUMBERED"),
    (re.compile(r"seconds_left\W+\d+"), "SECONDS"),
]
SEALED = {"payload", "key", "lock"}  # of a task row: its random name, twice
NEVER_ALIKE = {"sealed"}
#: Measures of the stored counts whose bucket is a time in seconds.
TIMES = {"oldest"}

Row = tuple[str, str]


def rows() -> Counter[Row]:
    """Return every row of the product's tables, exactly."""
    statements = [f"SELECT '{name}', to_jsonb(t)::text FROM \"{name}\" t" for name in _tables()]  # noqa: S608  our own names
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join(statements))
        return Counter(cursor.fetchall())


def changed(before: Counter[Row], after: Counter[Row]) -> tuple[list[Row], list[Row]]:
    """Return the removed and the added rows, without values that differ each time."""
    gone, come = before - after, after - before
    return sorted(map(_alike, gone.elements())), sorted(map(_alike, come.elements()))


def clear() -> None:
    """Delete every run with its rows, and keep the organisation. Without TRUNCATE, which takes longer than the whole
    scene; without triggers of append-only tables.
    """
    emptied = ";".join(f'DELETE FROM "{name}"' for name in _tables() if name not in STAYS)  # noqa: S608
    with connection.cursor() as cursor:
        cursor.execute(f"SET session_replication_role = replica; {emptied}; SET session_replication_role = DEFAULT")


@functools.cache
def _tables() -> list[str]:
    return sorted(name for name in connection.introspection.table_names() if name.startswith(OWN))


def _alike(row: Row) -> Row:
    table, text = row
    columns = json.loads(text)
    if table.startswith("runs_configuration"):  # its records stay from scene to scene
        columns = {name: value for name, value in columns.items() if name not in ("seq", "subject")}
    if columns.get("measure") in TIMES:
        columns["bucket"] = "TIME"
    kept = {
        name: value is not None if name.endswith("_id") and name != "public_id" else value
        for name, value in columns.items()
        if name != "id" and name not in NEVER_ALIKE and not (table == "django_q_ormq" and name in SEALED)
    }
    words = json.dumps(kept, sort_keys=True)
    for pattern, word in DIFFERS:
        words = pattern.sub(word, words)
    return table, words
