"""A database file that is not whole is found before anybody goes on from it."""

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
    pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL looks after its own pages"),
]


def said(*command: str, address: str) -> tuple[int, str]:
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


def test_a_damaged_file_is_told_by_the_doctor_and_refused_by_restored(tmp_path: Path):
    address = own_processes.make_migrated_database(tmp_path)
    assert "damage:" not in said("doctor", address=address)[1]
    assert said("restored", address=address)[0] == 0

    overwrite_root_of(tmp_path / "own.sqlite3", "runs_hold")
    status, words = said("doctor", address=address)
    assert status == 1
    assert words.startswith("WRONG  damage: the database file is damaged: ")
    assert "Traceback" not in words
    status, words = said("restored", address=address)
    assert status == 1
    assert "Nothing was changed: the database file is damaged: " in words
    assert "Put the backup back anew, without a -wal and -shm beside it." in words
    assert "Traceback" not in words
