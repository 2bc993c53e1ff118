"""The bytes of checkpoint files, in a temporary file and in Django's storage.

A file is never completely in memory. An upload is spooled and its digest computed before the storage is called, so that
a refused upload leaves nothing behind. Nothing here reads a row or runs inside a transaction.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import IO

from django.core.files import File
from django.core.files.storage import default_storage

from ledger.transactions import assert_no_transaction

PIECE = 64 * 1024
#: Smaller files stay in memory; larger ones are unnamed files in the folder that TMPDIR names.
SMALL = 512 * 1024


@dataclass(frozen=True, kw_only=True)
class SpooledFile:
    """A complete upload, with its digest. The caller closes ``file``."""

    file: IO[bytes]
    digest: str
    size: int


class NotStored(Exception):
    """The storage has no file of this name."""


def spool_upload(pieces: Iterable[bytes]) -> SpooledFile:
    """Write the pieces into a temporary file. If the iterable raises, the file is discarded."""
    assert_no_transaction()
    file = tempfile.SpooledTemporaryFile(max_size=SMALL)  # noqa: SIM115  the caller closes it
    try:
        known, size = hashlib.sha256(), 0
        for piece in pieces:
            known.update(piece)
            size += len(piece)
            file.write(piece)
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return SpooledFile(file=file, digest=f"sha256:{known.hexdigest()}", size=size)


def store_file(name: str, spooled: SpooledFile) -> None:
    """Store the bytes under a new name. Raises ``OSError`` if the storage refuses them."""
    assert_no_transaction()
    spooled.file.seek(0)
    written = default_storage.save(name, File(spooled.file, name=name))
    if written != name:
        default_storage.delete(written)
        raise OSError(f"the storage renamed {name} to {written}")


def read_stored_file(name: str, *, most: int) -> Iterator[bytes]:
    """Yield the stored bytes, at most one piece beyond ``most`` bytes.

    Raises ``NotStored``, or the ``OSError`` of an unavailable storage.
    """
    assert_no_transaction()
    try:
        stored = default_storage.open(name, "rb")
    except FileNotFoundError:
        raise NotStored from None
    with closing(stored):
        read = 0
        while read <= most and (piece := stored.read(PIECE)):
            read += len(piece)
            yield piece


def delete_stored_file(name: str) -> None:
    """Delete the bytes; a missing file is no error."""
    assert_no_transaction()
    default_storage.delete(name)


def is_file_stored(name: str, *, size: int) -> bool:
    """Tell whether a file of this size is stored, without reading it."""
    assert_no_transaction()
    return default_storage.exists(name) and default_storage.size(name) == size
