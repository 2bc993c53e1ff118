"""The real Valkey or Redis, on a free port and without files."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests import own_processes


@contextlib.contextmanager
def started_cache(folder: Path, *, url: str = "") -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Start a server at this URL, else on a free port; yields its URL and its process. Skips the test without a server."""
    program = shutil.which("valkey-server") or shutil.which("redis-server")
    if program is None:
        pytest.skip("neither valkey-server nor redis-server is installed")
    port = urlsplit(url).port or own_processes.free_port()
    command = [program, "--bind", "127.0.0.1", "--port", str(port), "--save", "", "--dir", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        own_processes.eventually(lambda: _accepts(port), within=30)
        yield f"redis://127.0.0.1:{port}/0", process
    finally:
        process.kill()
        process.wait()


def _accepts(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5):
        return True
    return False
