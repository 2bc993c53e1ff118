"""What an attached file is, by its bytes and never by its name, and the name under which it is stored.

Three types are recognized. A file that is also something else (a PDF with an archive or text behind its end, a picture with
trailing bytes) is refused: other programs would read it as that.
"""

from __future__ import annotations

import re
import unicodedata
from typing import IO

TAIL = 66 * 1024  # bytes: the end record of a ZIP archive is within them
_PNG, _PNG_END = b"\x89PNG\r\n\x1a\n", b"\x00\x00\x00\x00IEND\xae\x42\x60\x82"
_JPEG, _JPEG_END = b"\xff\xd8\xff", b"\xff\xd9"
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
    file.seek(0)
    if head.startswith(_PNG):
        return "image/png" if head[12:16] == b"IHDR" and tail.endswith(_PNG_END) else ""
    if head.startswith(_JPEG):
        return "image/jpeg" if tail.endswith(_JPEG_END) else ""
    if _PDF.match(head):
        _, marker, rest = tail.rpartition(b"%%EOF")
        return "application/pdf" if marker and not rest.strip() and _ARCHIVE_END not in tail else ""
    return ""


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
