"""Detect a database that was rolled back to a backup: each host records the newest event that it has seen.

A worker records this high-water mark when it starts, once a minute, and when it stops. `web` and `worker` compare it before
they start, the doctor on each run, and `manage.py mark_restored` resets it. The mark is a file outside the database
(`HIGH_WATER_FILE`), so that a restore does not roll it back too. Without a readable mark nothing is detected.

A standby that was promoted can lack the last moments of the lost primary, and soon has newer events. So the mark also has
PostgreSQL's timeline, which each promotion raises. Its id contains the system identifier, which standbys share and a new
cluster does not, so that neither another host in the URL nor `pg_upgrade` changes what it means. Each host has its own mark:
a database that was accepted on one host is not known as accepted on another.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.db import connection
from django.db.models import Max

from reviewqueue.operations.installation import PROGRAM
from runs.models import Event

log = logging.getLogger(__name__)

#: One or two for each database: a host has one or two databases, a developer more.
MAX_MARKS = 100


@dataclass(frozen=True, kw_only=True)
class Rollback:
    """The newest event that this host has seen, and the newest that the database has now."""

    seen: int
    newest: int

    @property
    def message(self) -> str:
        return (
            f"The database was rolled back: this host has seen event {self.seen}, but the newest is {self.newest}. "
            f"If you restored a backup, run: {PROGRAM} mark_restored"
        )


@dataclass(frozen=True, kw_only=True)
class Promotion:
    """PostgreSQL's timeline that this host has seen, and the present one."""

    seen: int
    present: int

    @property
    def message(self) -> str:
        return (
            f"A standby was promoted (PostgreSQL's timeline was {self.seen}, and is {self.present}). If it followed "
            f"asynchronously, acknowledged work can be lost: stop every worker and run: {PROGRAM} mark_restored. "
            f"If nothing can be lost, or if mark_restored already ran on another host since the promotion, run: "
            f"{PROGRAM} mark_restored --nothing-lost"
        )


def find_promotion() -> Promotion | None:
    """Return the promotion since this host's first mark, or since `mark_restored`; ``None`` if there was none."""
    present = _timeline()
    seen = _seen_timeline(_read(), present) if present else 0
    return Promotion(seen=seen, present=present) if 0 < seen < present else None


def find_rollback() -> Rollback | None:
    """Return the rollback, or ``None``. A database without events is new, so it was not rolled back."""
    seen, newest = _read().get(_database_id(), 0), _newest()
    return Rollback(seen=seen, newest=newest) if 0 < newest < seen else None


def record_high_water() -> None:
    """Record the newest event, unless the database was rolled back. A database without events resets the mark.

    The timeline is recorded once, so that a promotion is found until `mark_restored` has run.
    """
    newest, marks = _newest(), _read()
    if newest == 0 or newest >= marks.get(_database_id(), 0):
        present = _timeline()
        seen = _seen_timeline(marks, present) if newest and present else 0
        _write(newest, timeline=seen or present)


def reset_high_water() -> None:
    """Accept the database as it is, after every open run was put on hold or if nothing was lost."""
    _write(_newest(), timeline=_timeline())


def _newest() -> int:
    return Event.objects.aggregate(newest=Max("pk"))["newest"] or 0


def _timeline() -> int:
    """Return PostgreSQL's timeline; 0 on SQLite."""
    if connection.vendor != "postgresql":
        return 0
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_walfile_name(pg_current_wal_lsn())")
        [name] = cursor.fetchone()
    return int(name[:8], 16)


def _seen_timeline(marks: dict[str, int], present: int) -> int:
    """Return the timeline that this host has seen; 0 if none. A new cluster counts from 1 again."""
    seen = marks.get(_timeline_id(), marks.get(_old_timeline_id(), 0))
    return seen if seen <= present else 0


def _timeline_id() -> str:
    """Return an id of this database in its cluster, and in the standbys of it."""
    identifier = _system_identifier()
    if not identifier:
        return _old_timeline_id()
    text = f"{identifier} {connection.settings_dict['NAME']}"
    return f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.timeline"


def _old_timeline_id() -> str:
    """Return the id of marks of earlier versions, and of a role that cannot read the system identifier."""
    return f"{_database_id()}.timeline"


def _system_identifier() -> int:
    """Return the identifier that a server and its standbys share; 0 if the role cannot read it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT has_function_privilege('pg_control_system()', 'EXECUTE')")
        if cursor.fetchone() != (True,):
            return 0
        cursor.execute("SELECT system_identifier FROM pg_control_system()")
        return int(cursor.fetchone()[0])


def _database_id() -> str:
    """Return an id that does not reveal the database's address: the file is not secret."""
    named = connection.settings_dict
    text = f"{connection.vendor} {named['HOST']} {named['PORT']} {named['NAME']}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _read() -> dict[str, int]:
    try:
        marks = json.loads(Path(settings.HIGH_WATER_FILE).read_text())
        return {str(name): int(seen) for name, seen in marks.items()}
    except (OSError, ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        return {}


def _write(newest: int, *, timeline: int) -> None:
    """Replace the file atomically, so that readers see old marks or new ones. A failure is only logged."""
    if not settings.HIGH_WATER_FILE:
        return
    path = Path(settings.HIGH_WATER_FILE)
    own = {_database_id(): newest} | ({_timeline_id(): timeline} if timeline else {})
    replaced = {*own, _old_timeline_id()}
    others = {other: seen for other, seen in _read().items() if other not in replaced}
    marks = dict(list(others.items())[len(own) - MAX_MARKS :]) | own
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        if path.exists() and not path.is_file():
            raise FileExistsError("not a regular file")
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps(marks))
        temporary.replace(path)
    except OSError as problem:
        log.warning("Cannot record the high-water mark for rollback detection in %s: %s", path, problem)
