"""What an attached file is, by its bytes and never by its name, and the name under which it is stored.

Three types are recognized. The chunks of a PNG and the segments of a JPEG must end with the file; the photos of many phones
are several JPEGs after each other. A file that is also something else (a PDF with text behind its end, a picture with
trailing bytes, any of them with the end record of a ZIP archive) is refused: other programs would read it as that.
"""

from __future__ import annotations

import re
import unicodedata
from typing import IO

TAIL = 66 * 1024  # bytes: the end record of a ZIP archive is within them
_PNG, _PNG_END = b"\x89PNG\r\n\x1a\n", b"\x00\x00\x00\x00IEND\xae\x42\x60\x82"
_JPEG, _START_OF_IMAGE = b"\xff\xd8\xff", b"\xff\xd8"
_START_OF_SCAN, _END_OF_IMAGE = 0xDA, 0xD9
#: Markers without a segment behind them, and bytes that are no marker.
_ALONE, _NO_MARKER = frozenset({0x01, *range(0xD0, 0xD8)}), frozenset({0x00, 0xD8, 0xFF})
#: The next marker in the data of a scan, where FF 00 is a byte of the data.
_AFTER_SCAN = re.compile(rb"\xff[\x01-\xcf\xd8-\xfe]")
_PIECE = 8 * 1024
MAX_PARTS = 10_000  # chunks of a PNG, segments of a JPEG
_PDF = re.compile(rb"%PDF-[12]\.[0-9]")
_ARCHIVE_END = b"PK\x05\x06"
_EXTENSIONS = {"application/pdf": (".pdf",), "image/jpeg": (".jpg", ".jpeg"), "image/png": (".png",)}
MAX_NAME = 120  # characters


def recognize(file: IO[bytes], size: int) -> str:
    """Return the media type of a file; empty for one that is of no known type, or of more than one."""
    file.seek(0)
    head = file.read(1024)
    file.seek(max(0, size - TAIL))
    tail = file.read(TAIL)
    found = "" if _ARCHIVE_END in tail else _type_of(file, size, head=head, tail=tail)
    file.seek(0)
    return found


def _type_of(file: IO[bytes], size: int, *, head: bytes, tail: bytes) -> str:
    if head.startswith(_PNG):
        return "image/png" if tail.endswith(_PNG_END) and _is_png(file, size) else ""
    if head.startswith(_JPEG):
        return "image/jpeg" if _is_jpeg(file, size) else ""
    if _PDF.match(head):
        _, marker, rest = tail.rpartition(b"%%EOF")
        return "application/pdf" if marker and not rest.strip() else ""
    return ""


def _is_png(file: IO[bytes], size: int) -> bool:
    """Return whether the chunks begin with the header and end, with the file, with the end chunk."""
    at = len(_PNG)
    for number in range(MAX_PARTS):
        file.seek(at)
        start = file.read(8)
        length, name = int.from_bytes(start[:4]), start[4:]
        at += 12 + length  # with the type before and the checksum behind the data
        if len(start) < 8 or at > size or (name == b"IHDR") != (number == 0):
            return False
        if name == b"IEND":
            return at == size
    return False


def _is_jpeg(file: IO[bytes], size: int) -> bool:
    """Return whether the segments end, with the file, with the end of an image that has data."""
    at, has_data = len(_START_OF_IMAGE), False
    for _ in range(MAX_PARTS):
        file.seek(at)
        start = file.read(4)
        if len(start) < 2 or start[0] != 0xFF:
            return False
        marker = start[1]
        if marker == 0xFF:  # a byte before a marker that fills up
            at += 1
        elif marker == _END_OF_IMAGE:
            at += 2
            if at == size or not has_data:
                return at == size and has_data
            file.seek(at)
            if file.read(2) != _START_OF_IMAGE:
                return False
            at, has_data = at + 2, False
        elif marker in _ALONE:
            at += 2
        elif marker in _NO_MARKER or len(start) < 4 or (length := int.from_bytes(start[2:])) < 2:
            return False
        else:
            at += 2 + length
            if marker == _START_OF_SCAN:
                at, has_data = _end_of_scan(file, at), True
    return False


def _end_of_scan(file: IO[bytes], at: int) -> int:
    """Return where the next marker begins; the end of the file if there is none."""
    file.seek(at)
    before = b""
    while piece := file.read(_PIECE):
        data = before + piece
        found = _AFTER_SCAN.search(data)
        if found is not None:
            return at + found.start()
        before = b"\xff" if data.endswith(b"\xff") else b""
        at += len(data) - len(before)
    return at


def clean_name(name: str, media_type: str) -> str:
    """Return the last part of a file's name without invisible and bidirectional characters, ending as its type does."""
    last = unicodedata.normalize("NFC", name).replace("\\", "/").rpartition("/")[2]
    shown = "".join(letter for letter in last if unicodedata.category(letter)[0] not in "CZ" or letter == " ")
    shown = re.sub(r'[<>:"|?*]', "", shown).strip(" .")
    extensions = _EXTENSIONS[media_type]
    has_extension = shown.lower().endswith(extensions)
    stem = shown.rpartition(".")[0] if has_extension else shown
    extension = shown.rpartition(".")[2] if has_extension else extensions[0][1:]
    return f"{stem[:MAX_NAME].strip(' .') or 'file'}.{extension}"
