"""A program that renders a page of a PDF: the file on standard input, the number of pages and a PNG on standard output.

    pdf_process.py PAGE

With page 0 it only counts the pages. `pdf_pictures` starts it for each page, because the file is untrusted and PDFium is
written in C++. It limits its CPU time, its memory and its files, runs no script of the file (PDFium is built without an
engine), and ends with status 3 if it cannot render the page.
"""

from __future__ import annotations

import resource
import struct
import sys
import zlib

CPU_SECONDS, MEMORY = 10, 1024**3
WIDTH, HEIGHT = 1200, 3600  # the largest picture, in pixels


def limit() -> None:
    """Bound what this process can use; it can write to no file."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":  # other systems refuse it
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def render(content: bytes, page: int) -> tuple[int, bytes]:
    """Return the number of pages, and the PNG of a page (from 1); no picture if there is no such page, as page 0."""
    import pypdfium2

    with pypdfium2.PdfDocument(content) as document:
        if not 1 <= page <= len(document):
            return len(document), b""
        found = document[page - 1]
        width, height = found.get_size()
        bitmap = found.render(scale=min(WIDTH / width, HEIGHT / height), rev_byteorder=True)
        return len(document), png(bitmap.width, bitmap.height, bytes(bitmap.buffer), bitmap.stride)


def png(width: int, height: int, pixels: bytes, stride: int) -> bytes:
    """Return the PNG (W3C PNG, third edition) of red, green and blue bytes, in lines of ``stride`` bytes."""
    lines = b"".join(b"\x00" + pixels[at : at + 3 * width] for at in range(0, height * stride, stride))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )


def main() -> int:
    limit()
    try:
        pages, picture = render(sys.stdin.buffer.read(), int(sys.argv[1]))
    except Exception as error:  # noqa: BLE001  whatever the file causes
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return 3
    sys.stdout.buffer.write(b"%d\n" % pages + picture)
    return 0


if __name__ == "__main__":
    sys.exit(main())
