"""What is wrong here? Every check, in the order in which one would want to know. `manage.py doctor` says it in words.

Read-only: a doctor that repaired rows would hide what broke them. `rows` asks whether they bear each other out, `records`
whether they are as history recorded them, `history` whether it was rewritten, `work` whether what is due is done, `setup`
whether it is safe and somebody can act, `storage` whether files are where rows say, `damage` whether the database file is
whole.
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


def examine(*, newest: int | None = None, anchors: Iterable[history_integrity.Anchor] = ()) -> Iterator[Finding]:
    """Return everything found; ``newest`` bounds the timelines that are read, ``anchors`` are compared with all of them.

    Without a database there is one finding; of a damaged one nothing else is looked at.
    """
    try:
        if not health.is_migrated():
            yield Finding(check="migrations", words="the database is not migrated: python3 manage.py migrate")
            return
    except DatabaseError as problem:
        yield Finding(check="database", words=f"the database does not answer ({str(problem).strip()})")
        return
    damaged = list(first_of(sqlite_integrity.damage()))
    if damaged:
        yield from damaged
        return
    checks: list[Callable[[], Iterable[Finding]]] = [
        workers.workers,
        workers.restored,
        workers.clocks,
        workers.overdue,
        workers.undelivered,
        configuration.unsafe_settings,
        configuration.policies,
        configuration.effects,
        configuration.nobody_there,
        checkpoint_files.stored_files,
        checkpoint_files.open_files,
        row_consistency.orphans,
        records.triggers,
        records.configuration,
        functools.partial(row_consistency.wrong_runs, newest=newest),
        history_integrity.feed_gaps,
        functools.partial(history_integrity.missed_anchors, anchors),
    ]
    for check in checks:
        yield from first_of(check())
