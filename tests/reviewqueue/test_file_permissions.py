"""Files of the product are for its own user: made so, narrowed at the start, found by the doctor where they stay wider."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from django.conf import settings as installed
from django.db import connection

from reviewqueue.operations import environment, file_permissions
from reviewqueue.operations.doctor import checkpoint_files
from tests.own_processes import environment_for

ON_SQLITE = pytest.mark.skipif(
    "sqlite" not in installed.DATABASES["default"]["ENGINE"], reason="the files of PostgreSQL are PostgreSQL's"
)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_a_command_makes_its_database_and_what_lies_beside_it_for_its_user_alone(tmp_path: Path):
    database = tmp_path / "queue.sqlite3"
    wanted = {"DATABASE_URL": f"sqlite:///{database}", "HIGH_WATER_FILE": str(tmp_path / "marks" / "high-water.json")}
    command = [sys.executable, str(installed.ROOT / "manage.py"), "migrate", "ledger", "0001", "--verbosity", "0"]
    script = "import os, sys; os.umask(0); os.execv(sys.argv[1], sys.argv[1:])"  # the widest that a shell could ask for
    wide = [sys.executable, "-c", script, *command]
    done = subprocess.run(wide, env=environment_for(database) | wanted, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert mode_of(database) == 0o600
    keep_open = sqlite3.connect(database)
    keep_open.execute("PRAGMA journal_mode=WAL")
    keep_open.execute("CREATE TABLE t (n)")
    keep_open.commit()
    found = {path.name: mode_of(path) for path in tmp_path.glob("queue*")}
    keep_open.close()
    assert found == {"queue.sqlite3": 0o600, "queue.sqlite3-wal": 0o600, "queue.sqlite3-shm": 0o600}


def test_the_folder_of_its_own_is_made_for_its_user_alone():
    before = os.umask(0)
    try:
        with tempfile.TemporaryDirectory() as folder:
            environment.default_database(Path(folder) / "var", "x.sqlite3")
            assert mode_of(Path(folder) / "var") == 0o700
    finally:
        os.umask(before)


def test_a_narrower_umask_is_kept_and_children_inherit_it():
    script = (
        "import os; os.umask(0o177)\nfrom reviewqueue.operations import file_permissions as it\n"
        "it.keep_new_files_private(); print(oct(os.umask(0)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=installed.ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "0o177"


@pytest.fixture
def wide(tmp_path: Path, settings) -> dict[str, Path]:
    """What an earlier version left: the folder, the database with its log, the marks, the demo's files."""
    settings.VAR = tmp_path / "var"
    settings.VAR.mkdir(mode=0o755)
    settings.HIGH_WATER_FILE = str(settings.VAR / "high-water.json")
    settings.MEDIA_ROOT = settings.VAR / "files"
    settings.MEDIA_ROOT.mkdir(mode=0o755)
    paths = {
        name: settings.VAR / name for name in ("high-water.json", "demo.json", "demo-records.json", "demo.sqlite3")
    }
    for path in paths.values():
        path.write_text("{}")
        path.chmod(0o644)
    settings.VAR.chmod(0o755)
    return paths | {"var": settings.VAR, "files": settings.MEDIA_ROOT}


def test_what_is_wider_is_narrowed_when_a_process_starts(wide: dict[str, Path]):
    file_permissions.restrict_old_files()
    assert {name: mode_of(path) for name, path in wide.items()} == {
        "var": 0o700,
        "files": 0o700,
        **dict.fromkeys(("high-water.json", "demo.json", "demo-records.json", "demo.sqlite3"), 0o600),
    }


@ON_SQLITE
@pytest.mark.django_db
def test_the_database_of_sqlite_is_among_them(settings):
    database = Path(connection.settings_dict["NAME"])
    assert database in set(file_permissions.private_paths())
    assert mode_of(database) == 0o600


def test_a_folder_that_the_operator_named_keeps_its_mode(wide: dict[str, Path], tmp_path: Path, settings):
    settings.MEDIA_ROOT = tmp_path / "volume"
    settings.MEDIA_ROOT.mkdir()
    settings.MEDIA_ROOT.chmod(0o755)
    file_permissions.restrict_old_files()
    assert mode_of(settings.MEDIA_ROOT) == 0o755


def test_a_link_is_not_followed(wide: dict[str, Path], tmp_path: Path, settings):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("x")
    elsewhere.chmod(0o644)
    (settings.VAR / "demo-link").symlink_to(elsewhere)
    file_permissions.restrict_old_files()
    assert mode_of(elsewhere) == 0o644


def test_the_doctor_reports_accessible_files_with_the_command_that_restricts_them(wide: dict[str, Path]):
    found = {finding.message for finding in checkpoint_files.open_files()}
    path = wide["demo.sqlite3"]
    assert f"Other users of this machine can access {path} (mode 0644). Run: chmod 0600 {path}" in found
    assert f"Other users of this machine can access {wide['var']} (mode 0755). Run: chmod 0700 {wide['var']}" in found
    file_permissions.restrict_old_files()
    assert list(checkpoint_files.open_files()) == []


def test_a_device_in_the_place_of_a_file_keeps_its_mode():
    assert list(file_permissions.accessible_to_others([Path("/dev/null")])) == []
