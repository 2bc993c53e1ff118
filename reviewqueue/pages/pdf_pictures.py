"""Pages of an attached PDF as pictures, each rendered in a process of its own (`pdf_process`)."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ledger.errors import Busy

logger = logging.getLogger(__name__)

PROGRAM = Path(__file__).with_name("pdf_process.py")
SECONDS = 20
_NONE = 0  # the page that no PDF has
#: How many pages one web process renders at once.
_places = threading.BoundedSemaphore(2)


class NotRenderable(Exception):
    """The file is encrypted, damaged, or too large to render."""


@dataclass(frozen=True, kw_only=True)
class RenderedPage:
    """The number of pages of a PDF, and a page of it as a PNG; empty if it has no such page."""

    pages: int
    png: bytes


def count_pdf_pages(file: IO[bytes]) -> int:
    """Return the number of pages, and render none. Raises as ``render_pdf_page`` does."""
    return render_pdf_page(file, _NONE).pages


def render_pdf_page(file: IO[bytes], page: int) -> RenderedPage:
    """Render a page (from 1).

    Raises ``NotRenderable``, and ``Busy`` if others are being rendered or the machine can start no process.
    """
    if not _places.acquire(timeout=5):
        raise Busy("Other previews are being made. Try again in a moment.")
    try:
        done = _run(file.read(), page)
    finally:
        _places.release()
    if done.returncode != 0:
        logger.info(
            "A PDF cannot be rendered: status %s, %s", done.returncode, done.stderr[-300:].decode(errors="replace")
        )
        raise NotRenderable
    number, _, png = done.stdout.partition(b"\n")
    return RenderedPage(pages=int(number), png=png)


def _run(content: bytes, page: int) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-I", str(PROGRAM), str(page)]
    try:
        return subprocess.run(command, input=content, capture_output=True, env={}, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise NotRenderable from error
    except OSError as error:  # no memory or process is left
        logger.warning("A PDF cannot be rendered now: %s", error)
        raise Busy("The preview cannot be made at present. Try again in a moment.") from error
