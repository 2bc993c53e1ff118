"""Every check of `manage.py doctor`, the most urgent first.

Read-only: a doctor that repaired rows would hide what broke them. `sqlite_integrity` checks the database file, `workers`
that due work is done, `configuration` that the set-up is safe and has people who can act, `checkpoint_files` the storage,
`row_consistency` that rows agree with each other, `records` that rows are as their history recorded them, and
`history_integrity` that the history was not rewritten.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator

from django.db import DatabaseError

from reviewqueue.operations import health
from reviewqueue.operations.doctor import (
    checkpoint_files,
    configuration,
    history_integrity,
    records,
    row_consistency,
    sqlite_integrity,
    workers,
)
from reviewqueue.operations.doctor.findings import Finding, first_of
from reviewqueue.operations.installation import PROGRAM


def run_checks(*, newest: int | None = None, anchors: Iterable[history_integrity.Anchor] = ()) -> Iterator[Finding]:
    """Run every check. ``newest`` limits how many timelines are read; ``anchors`` are compared with all of them.

    A missing, unmigrated or damaged database is the only finding: no other check runs.
    """
    try:
        if not health.is_migrated():
            yield Finding(check="migrations", message=f"The database is not migrated. Run: {PROGRAM} migrate")
            return
    except DatabaseError as problem:
        yield Finding(check="database", message=f"The database does not answer ({str(problem).strip()}).")
        return
    damaged = list(first_of(sqlite_integrity.damaged_pages()))
    if damaged:
        yield from damaged
        return
    checks: list[Callable[[], Iterable[Finding]]] = [
        workers.workers,
        workers.restored,
        workers.clocks,
        workers.overdue,
        workers.undelivered,
        workers.notifications,
        configuration.unsafe_settings,
        configuration.hardening,
        configuration.database_role,
        configuration.chat_channels,
        configuration.policies,
        configuration.effects,
        configuration.missing_people,
        checkpoint_files.stored_files,
        checkpoint_files.open_files,
        row_consistency.dangling_references,
        records.triggers,
        records.configuration,
        functools.partial(row_consistency.inconsistent_runs, newest=newest),
        history_integrity.feed_gaps,
        functools.partial(history_integrity.broken_anchors, anchors),
    ]
    for check in checks:
        yield from first_of(check())
