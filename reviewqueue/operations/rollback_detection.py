"""Has the database gone back? A host remembers how far it has seen the timeline; a restored backup knows less.

A worker writes the mark when it begins, once a minute, and when it stops. `web` and `worker` look before they begin, the
doctor whenever it is asked, and `manage.py restored` starts it anew. The mark lies beside the product (`HIGH_WATER_FILE`),
never in the database: it must not come back with it. A host without a mark, or with one that cannot be read, has seen
nothing; nor has the demo, whose world is made anew.
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

from runs.models import Event

log = logging.getLogger(__name__)

#: Databases one file tells of: a host has one or two, a developer more.
KEPT = 50


@dataclass(frozen=True, kw_only=True)
class GoneBack:
    """The newest event that this host has seen, and the newest that the database has now."""

    seen: int
    newest: int

    @property
    def words(self) -> str:
        return (
            f"the database has gone back: this host has seen event {self.seen}, and the newest is {self.newest}. "
            "If a backup was restored: python3 manage.py restored"
        )


def look() -> GoneBack | None:
    """Return how far the database has gone back, or None. One without any event is new: nothing in it can go on."""
    seen, newest = _read().get(_of_this_database(), 0), _newest()
    return GoneBack(seen=seen, newest=newest) if 0 < newest < seen else None


def remember() -> None:
    """Note how far the timeline has come, where it has not gone back; in a new database, that nothing was seen yet."""
    newest = _newest()
    if newest == 0 or newest >= _read().get(_of_this_database(), 0):
        _write(newest)


def begin_anew() -> None:
    """Take the database as it is: everything in it is held, or somebody has said that nothing was lost."""
    _write(_newest())


def _newest() -> int:
    return Event.objects.aggregate(newest=Max("pk"))["newest"] or 0


def _of_this_database() -> str:
    """Return a name for the database that tells no address: the file is no secret."""
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
    """Write beside it, then put it in its place: whoever reads meets old marks or new ones. A full disk is logged."""
    if not settings.HIGH_WATER_FILE:
        return
    name, path = _of_this_database(), Path(settings.HIGH_WATER_FILE)
    others = {other: seen for other, seen in _read().items() if other != name}
    marks = dict(list(others.items())[1 - KEPT :]) | {name: newest}
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        if path.exists() and not path.is_file():
            raise FileExistsError("it is no file of ours")
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(json.dumps(marks))
        beside.replace(path)
    except OSError as problem:
        log.warning("This host can't note how far the database has come (%s): %s", path, problem)
