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

from reviewqueue import health
from reviewqueue.doctor import damage, history, records, rows, setup, storage, work
from reviewqueue.doctor.findings import Finding, first_of


def examine(*, newest: int | None = None, anchors: Iterable[history.Anchor] = ()) -> Iterator[Finding]:
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
    damaged = list(first_of(damage.damage()))
    if damaged:
        yield from damaged
        return
    checks: list[Callable[[], Iterable[Finding]]] = [
        work.workers,
        work.restored,
        work.clocks,
        work.overdue,
        work.undelivered,
        setup.unsafe_settings,
        setup.policies,
        setup.effects,
        setup.nobody_there,
        storage.stored_files,
        storage.open_files,
        rows.orphans,
        records.triggers,
        records.configuration,
        functools.partial(rows.wrong_runs, newest=newest),
        history.feed_gaps,
        functools.partial(history.missed_anchors, anchors),
    ]
    for check in checks:
        yield from first_of(check())
