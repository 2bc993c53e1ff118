"""Where checkpoint files lie: Django's own storage in a folder, whose files are on the disk before anybody is told so.

Named by `STORAGES` in `settings`; another storage of Django's may stand there instead. Nothing else here writes files.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from django.core.files import File
from django.core.files.storage import FileSystemStorage
from django.utils.deconstruct import deconstructible


@deconstructible(path="reviewqueue.operations.storage.DurableStorage")
class DurableStorage(FileSystemStorage):
    """Files that a power cut after our 201 does not take, as the database's commits are (`synchronous=FULL`)."""

    def _save(self, name: str, content: File[Any]) -> str:
        written: str = super()._save(name, content)  # type: ignore[misc]  # Django's own, which its stubs leave out
        path = Path(self.path(written))
        root = Path(self.location)
        # The file, then each folder up to the root: a folder that is new is an entry of the one above.
        for place in (path, *(folder for folder in path.parents if folder == root or root in folder.parents)):
            write_through(place)
        return written


def write_through(place: Path) -> None:
    """Have a file, or the entries of a folder, on the disk."""
    descriptor = os.open(place, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
