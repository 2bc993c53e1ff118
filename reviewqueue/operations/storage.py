"""Storage of checkpoint files: Django's folder storage, but with every file on the disk before the upload is confirmed.

`settings.STORAGES` names it and can name any other Django storage instead.
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
    """A file survives a power cut after its 201 response, as the database's commits do (`synchronous=FULL`)."""

    def _save(self, name: str, content: File[Any]) -> str:
        written: str = super()._save(name, content)  # type: ignore[misc]  # Django's own, which its stubs leave out
        path = Path(self.path(written))
        root = Path(self.location)
        # The file, then each folder up to the root: a new folder is an entry of the one above.
        for place in (path, *(folder for folder in path.parents if folder == root or root in folder.parents)):
            flush_to_disk(place)
        return written


def flush_to_disk(place: Path) -> None:
    """Flush a file, or the entries of a folder, to the disk."""
    descriptor = os.open(place, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
