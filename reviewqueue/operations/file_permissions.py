"""Permissions of the product's files: 0600, and 0700 for folders. New files get them by the umask, old ones at start-up.

The database and its neighbours contain drafts and sessions. Only files of the product are changed, and only by their
owner; a folder that the operator chose keeps its mode.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

#: The umask: no permission for the group and others.
PRIVATE = 0o077
_SQLITE_SUFFIXES = ("", "-wal", "-shm", "-journal")


def keep_new_files_private() -> None:
    """Set the umask of this process and its children. A stricter umask is kept."""
    os.umask(os.umask(PRIVATE) | PRIVATE)


def make_folder(folder: Path) -> None:
    """Create a folder that only its owner can use."""
    folder.mkdir(mode=0o700, exist_ok=True)


def restrict_old_files() -> None:
    """Restrict files that an earlier version, or another umask, made accessible."""
    restrict(private_paths())


def restrict(paths: Iterable[Path]) -> None:
    """Remove the permissions of the group and others from these paths, where this user owns them."""
    for path in accessible_to_others(paths):
        try:
            path.chmod(stat.S_IMODE(path.stat().st_mode) & ~PRIVATE)
        except OSError:
            continue  # another user's file or a read-only disk: the doctor reports it


def accessible_to_others(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the files and folders among these paths that the group or others can access.

    Links are not followed. Devices (`/dev/null` as ``HIGH_WATER_FILE``) are skipped.
    """
    for path in paths:
        try:
            mode = path.lstat().st_mode
        except OSError:
            continue
        if (stat.S_ISREG(mode) or stat.S_ISDIR(mode)) and mode & PRIVATE:
            yield path


def private_paths() -> Iterator[Path]:
    """Yield where the product stores data on this machine: `var/`, database, rollback detection, demo, checkpoint files."""
    from django.conf import settings

    yield settings.VAR
    database = settings.DATABASES["default"]
    if database["ENGINE"].endswith("sqlite3"):
        for end in _SQLITE_SUFFIXES:
            yield Path(f"{database['NAME']}{end}")
    if settings.HIGH_WATER_FILE:
        yield Path(settings.HIGH_WATER_FILE)
    yield from sorted(settings.VAR.glob("demo*"))
    if settings.VAR in Path(settings.MEDIA_ROOT).parents:
        yield Path(settings.MEDIA_ROOT)
