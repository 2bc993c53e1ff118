"""A damaged SQLite file is found by the doctor, and refused by `mark_restored`."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection

from tests import own_processes

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL checks its own pages"),
]


def run(*command: str, address: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, str(settings.ROOT / "manage.py"), *command],
        env=own_processes.environment_for(address),
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def overwrite_root_of(path: Path, table: str) -> None:
    with sqlite3.connect(path) as file:
        size = file.execute("PRAGMA page_size").fetchone()[0]
        root = file.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", [table]).fetchone()[0]
        file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    file.close()
    with path.open("r+b") as pages:
        pages.seek((root - 1) * size)
        pages.write(b"\xff" * size)


def test_a_damaged_file_is_reported_by_the_doctor_and_refused_by_mark_restored(tmp_path: Path):
    address = own_processes.make_migrated_database(tmp_path)
    assert "damage:" not in run("doctor", address=address)[1]
    assert run("mark_restored", address=address)[0] == 0

    overwrite_root_of(tmp_path / "own.sqlite3", "runs_hold")
    status, output = run("doctor", address=address)
    assert status == 1
    assert output.startswith("WRONG  damage: The database file is damaged: ")
    assert "Traceback" not in output
    status, output = run("mark_restored", address=address)
    assert status == 1
    assert "The database file is damaged: " in output
    assert "Nothing was changed." in output
    assert "Restore the backup again, without -wal and -shm files beside it." in output
    assert "Traceback" not in output
