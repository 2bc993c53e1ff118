"""The bytes of checkpoint files: on their way through a nameless temporary file, and in Django's storage.

A file is never whole in memory. On the way in its digest is known before the storage hears of it, so that what is refused
leaves nothing behind; on the way out what was verified is what is sent. Nothing here knows a row, and nothing here happens
inside a transaction. Called by ``offering`` and by the sweep in ``files``.
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

from ledger.transactions import assert_none_open

PIECE = 64 * 1024
#: Smaller files stay in memory on their way; larger ones lie in the folder that TMPDIR names, without a name.
SMALL = 512 * 1024


@dataclass(frozen=True, kw_only=True)
class Spooled:
    """Bytes that have arrived, with their digest; whoever has it closes ``file``."""

    file: IO[bytes]
    digest: str
    size: int


class NotStored(Exception):
    """The storage has nothing of this name."""


def spool(pieces: Iterable[bytes]) -> Spooled:
    """Take the pieces as they come. What the iterable raises goes through, and nothing is left of them."""
    assert_none_open()
    file = tempfile.SpooledTemporaryFile(max_size=SMALL)  # noqa: SIM115  closed by whoever it is given to
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
    return Spooled(file=file, digest=f"sha256:{known.hexdigest()}", size=size)


def put_in_storage(name: str, spooled: Spooled) -> None:
    """Write the bytes under a name that is new. Raises ``OSError`` where the storage does not take them."""
    assert_none_open()
    spooled.file.seek(0)
    written = default_storage.save(name, File(spooled.file, name=name))
    if written != name:
        default_storage.delete(written)
        raise OSError(f"the storage would call {name} {written}")


def pieces_in_storage(name: str, *, most: int) -> Iterator[bytes]:
    """Yield what is stored, at the most a piece more than ``most`` bytes.

    Raises ``NotStored``, or the ``OSError`` of a storage that does not answer.
    """
    assert_none_open()
    try:
        stored = default_storage.open(name, "rb")
    except FileNotFoundError:
        raise NotStored from None
    with closing(stored):
        read = 0
        while read <= most and (piece := stored.read(PIECE)):
            read += len(piece)
            yield piece


def delete_in_storage(name: str) -> None:
    """Delete the bytes; a name that is not there is fine."""
    assert_none_open()
    default_storage.delete(name)


def is_in_storage(name: str, *, size: int) -> bool:
    """Tell, without reading it, whether a file of this size is stored."""
    assert_none_open()
    return default_storage.exists(name) and default_storage.size(name) == size
