"""Detect a database that was rolled back to a backup: each host records the newest event that it has seen.

A worker records this high-water mark when it starts, once a minute, and when it stops. `web` and `worker` compare it before
they start, the doctor on each run, and `manage.py mark_restored` resets it. The mark is a file outside the database
(`HIGH_WATER_FILE`), so that a restore does not roll it back too. Without a readable mark nothing is detected.
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

#: Databases per file: a host has one or two, a developer more.
MAX_DATABASES = 50


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


def find_rollback() -> Rollback | None:
    """Return the rollback, or ``None``. A database without events is new, so it was not rolled back."""
    seen, newest = _read().get(_database_id(), 0), _newest()
    return Rollback(seen=seen, newest=newest) if 0 < newest < seen else None


def record_high_water() -> None:
    """Record the newest event, unless the database was rolled back. A database without events resets the mark."""
    newest = _newest()
    if newest == 0 or newest >= _read().get(_database_id(), 0):
        _write(newest)


def reset_high_water() -> None:
    """Accept the database as it is, after every open run was put on hold."""
    _write(_newest())


def _newest() -> int:
    return Event.objects.aggregate(newest=Max("pk"))["newest"] or 0


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


def _write(newest: int) -> None:
    """Replace the file atomically, so that readers see old marks or new ones. A failure is only logged."""
    if not settings.HIGH_WATER_FILE:
        return
    name, path = _database_id(), Path(settings.HIGH_WATER_FILE)
    others = {other: seen for other, seen in _read().items() if other != name}
    marks = dict(list(others.items())[1 - MAX_DATABASES :]) | {name: newest}
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        if path.exists() and not path.is_file():
            raise FileExistsError("not a regular file")
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps(marks))
        temporary.replace(path)
    except OSError as problem:
        log.warning("Cannot record the high-water mark for rollback detection in %s: %s", path, problem)
