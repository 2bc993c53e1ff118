"""Processes of the product, started by a test as a user starts them: by `manage.py`, on a database of their own.

For tests of `up`, `web` and `worker`, for journeys with real processes, and for kills.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import psutil
from django.conf import settings
from django.db import connection

#: Read without settings: benchmarks import this module before they choose theirs.
ROOT = Path(__file__).resolve().parent.parent
T = TypeVar("T")


def make_own_database(folder: Path) -> str:
    """Create an empty database of the suite's kind, and return its URL."""
    if connection.vendor == "sqlite":
        return f"sqlite:///{folder / 'own.sqlite3'}"
    return _create_on_postgresql()


def make_migrated_database(folder: Path) -> str:
    """Create a migrated database: a copy of one that each test process migrates once."""
    template = _migrated_template()
    if connection.vendor == "sqlite":
        shutil.copyfile(template.removeprefix("sqlite:///"), folder / "own.sqlite3")
        return f"sqlite:///{folder / 'own.sqlite3'}"
    return _create_on_postgresql(f"TEMPLATE {urlsplit(template).path[1:]}")


@functools.cache
def _migrated_template() -> str:
    if template := os.environ.get("REVIEWQUEUE_TEMPLATE"):  # `tests/run.py` has migrated one for all test processes
        return template
    folder = Path(tempfile.mkdtemp(prefix="reviewqueue-template-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    address = make_own_database(folder)
    run_command("migrate", environment=environment_for(address))
    return address


def _create_on_postgresql(like: str = "") -> str:
    import psycopg

    own = settings.DATABASES["default"]
    name = f"own_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(host=own["HOST"], user=own["USER"], dbname="postgres", autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name} {like}")
    return f"postgresql://{own['USER']}@/{name}?host={own['HOST']}"


def environment_for(address: str, **more: str) -> dict[str, str]:
    """Return the environment variables of a production set-up."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("REVIEWQUEUE_", "DJANGO_", "PYTEST"))
    }
    own = {
        "DATABASE_URL": address,
        "HIGH_WATER_FILE": str(_own_folder() / "high-water.json"),
        "FILES_DIR": str(_own_folder() / "files" / uuid.uuid4().hex),
        "SECRET_KEY": "k" * 10 + uuid.uuid4().hex * 2,
        "REVIEWQUEUE_ENVIRONMENT": "own",
    }
    return kept | own | more


@functools.cache
def _own_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="reviewqueue-own-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def run_command(*command: str, environment: dict[str, str], root: Path = ROOT) -> str:
    """Run `manage.py COMMAND` of the tree in ``root`` until it exits, and return its output."""
    done = subprocess.run(
        [sys.executable, str(root / "manage.py"), *command],
        env=environment,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_commands(commands: list[str], *, environment: dict[str, str]) -> str:
    """Run several commands of `manage.py` in one process, which starts only once; returns what they printed."""
    each = "for line in sys.argv[1:]:\n    run_django(shlex.split(line))"
    script = f"import shlex, sys\nfrom reviewqueue.__main__ import run_django\n{each}"
    done = subprocess.run(
        [sys.executable, "-c", script, *commands],
        env=environment | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@contextlib.contextmanager
def started(*command: str, environment: dict[str, str], log: Path, root: Path = ROOT) -> Iterator[psutil.Popen]:
    """Run `manage.py COMMAND` of the tree in ``root``, with its output in `log`. At the end, kill what is left of it."""
    with log.open("ab") as written:
        process = psutil.Popen(
            [sys.executable, str(root / "manage.py"), *command],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=written,
        )
    known: list[psutil.Process] = []
    try:
        with contextlib.suppress(psutil.NoSuchProcess):
            known = process.children(recursive=True)
        yield process
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            known += process.children(recursive=True)
        for left in [process, *known]:
            with contextlib.suppress(psutil.NoSuchProcess):
                left.kill()
        process.wait()


def eventually(what: Callable[[], T], *, within: float, log: Path | None = None) -> T:
    """Poll until the result is true, and return it. On a timeout, fail with the end of the log.

    ``within``: seconds on an idle machine. A busy one gets as many times more as it has runnable processes per core.
    """
    began = time.monotonic()
    while time.monotonic() - began < within * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)):
        answer = what()
        if answer:
            return answer
        time.sleep(0.1)
    said = log.read_text(errors="replace")[-3000:] if log else ""
    raise AssertionError(f"Not within {time.monotonic() - began:.0f} s.\n{said}")


def query(address: str, sql: str) -> list[tuple[Any, ...]]:
    """Query another process's database without Django, whose connection belongs to the suite."""
    if address.startswith("sqlite"):
        import sqlite3

        with contextlib.closing(sqlite3.connect(address.removeprefix("sqlite:///"))) as file:
            return file.execute(sql).fetchall()
    import psycopg

    with psycopg.connect(address) as server:
        return server.execute(sql).fetchall()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port
