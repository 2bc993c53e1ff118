"""Permissions of the product's files: 0600, and 0700 for folders. New files get them by the umask, older ones at start-up.

A database and what lies beside it hold what people typed, and sessions. Only files that the product made are narrowed, and
only by their owner; a folder that the operator named keeps its mode.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

#: Taken from what is created: everything of the group and of others.
PRIVATE = 0o077
_BESIDE_SQLITE = ("", "-wal", "-shm", "-journal")


def keep_new_files_private() -> None:
    """Set the umask of this process and of those it starts; a stricter one stays."""
    os.umask(os.umask(PRIVATE) | PRIVATE)


def make_folder(folder: Path) -> None:
    """Make a folder of the product's own, for its user alone."""
    folder.mkdir(mode=0o700, exist_ok=True)


def narrow_old_files() -> None:
    """Narrow what an earlier version, or another umask, made wider."""
    narrow(private_paths())


def narrow(paths: Iterable[Path]) -> None:
    """Take the group's and others' permissions from these paths, where this user owns them."""
    for path in too_open(paths):
        try:
            path.chmod(stat.S_IMODE(path.stat().st_mode) & ~PRIVATE)
        except OSError:
            continue  # another user's, or a read-only disk: the doctor says so


def too_open(paths: Iterable[Path]) -> Iterator[Path]:
    """Return the files and folders among these paths that the group or others can use.

    Links are not followed, and a device (`/dev/null` as ``HIGH_WATER_FILE``) belongs to the machine.
    """
    for path in paths:
        try:
            mode = path.lstat().st_mode
        except OSError:
            continue
        if (stat.S_ISREG(mode) or stat.S_ISDIR(mode)) and mode & PRIVATE:
            yield path


def private_paths() -> Iterator[Path]:
    """Yield the paths that hold what the product stores on this machine: its own folder, the database, marks, files."""
    from django.conf import settings

    yield settings.VAR
    database = settings.DATABASES["default"]
    if database["ENGINE"].endswith("sqlite3"):
        for end in _BESIDE_SQLITE:
            yield Path(f"{database['NAME']}{end}")
    if settings.HIGH_WATER_FILE:
        yield Path(settings.HIGH_WATER_FILE)
    yield from sorted(settings.VAR.glob("demo*"))
    if settings.VAR in Path(settings.MEDIA_ROOT).parents:
        yield Path(settings.MEDIA_ROOT)
