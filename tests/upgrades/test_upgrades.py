"""A database of an earlier release, migrated by today's code: its requests are decided and its runs continue."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connection

from tests import figures
from tests.own_processes import environment_for, make_own_database, run_command
from tests.upgrades import write_fixture
from tests.upgrades.write_fixture import KEY

pytestmark = [pytest.mark.django_db, pytest.mark.proves(22)]

HERE = Path(__file__).parent


@pytest.fixture(params=sorted(dump.stem for dump in HERE.glob("*.sql")))
def environment(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """Load the dump of each release into a database of the suite's kind."""
    return environment_with((HERE / f"{request.param}.sql").read_text(), tmp_path)


def environment_with(dump: str, tmp_path: Path) -> dict[str, str]:
    address = make_own_database(tmp_path)
    environment = environment_for(address, SECRET_KEY=KEY, DJANGO_SETTINGS_MODULE="reviewqueue.settings")
    if connection.vendor == "sqlite":
        with closing(sqlite3.connect(address.removeprefix("sqlite:///"))) as file:
            file.executescript(dump)
    else:
        load_into_postgresql(dump, address, environment)
    return environment


def load_into_postgresql(dump: str, address: str, environment: dict[str, str]) -> None:
    """Migrate to the tables of that release, and insert its rows."""
    import psycopg

    with closing(sqlite3.connect(":memory:")) as old, psycopg.connect(address) as new:
        old.executescript(dump)
        for app in ("ledger", "runs", "reviewqueue"):
            run_command("migrate", app, newest_migration(old, app), environment=environment)
        new.execute("SET session_replication_role = replica")  # rows are sorted by table, not by foreign keys
        tables = [table for (table,) in old.execute(TABLES).fetchall() if table not in LEFT_OUT]
        kinds = {table: kinds_of_columns(new, table) for table in tables}
        there = [table for table in tables if kinds[table]]
        new.execute(f"TRUNCATE {', '.join(there)}")
        for table in there:
            copy_rows(old, new, table, kinds[table])


def newest_migration(old: sqlite3.Connection, app: str) -> str:
    """Return the newest migration of the dump. Those before 0.1.0 are one today, `0001_tables`."""
    known = {path.stem for path in (settings.ROOT / app / "migrations").glob("0*.py")}
    applied = {name for (name,) in old.execute("SELECT name FROM django_migrations WHERE app = ?", [app])}
    return max(applied & known, default="0001_tables")


TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
LEFT_OUT = {"django_migrations", "django_content_type", "auth_permission", "reviewqueue_cache"}


def kinds_of_columns(new: Any, table: str) -> dict[str, str]:
    return dict(
        new.execute("SELECT column_name, data_type FROM information_schema.columns WHERE table_name = %s", [table])
    )


def text_of(value: Any, kind: str) -> str | None:
    """Return what PostgreSQL casts to the same value; SQLite stores a duration as a number of microseconds."""
    if value is None:
        return None
    return f"{value} microseconds" if kind == "interval" else str(value)


def copy_rows(old: sqlite3.Connection, new: Any, table: str, kinds: dict[str, str]) -> None:
    found = old.execute(f'SELECT * FROM "{table}"')  # noqa: S608  our own dump
    names = [column[0] for column in found.description]
    columns, places = ", ".join(f'"{name}"' for name in names), ", ".join(f"%s::text::{kinds[name]}" for name in names)
    insert = f'INSERT INTO "{table}" ({columns}) VALUES ({places})'  # noqa: S608
    for row in found.fetchall():
        new.execute(insert, [text_of(value, kinds[name]) for name, value in zip(names, row, strict=True)])
    if "id" in names:
        new.execute(f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), max(id)) FROM \"{table}\"")  # noqa: S608


@pytest.mark.long
def test_the_fixture_of_this_version_is_written_and_upgraded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("REVIEWQUEUE_ENVIRONMENT", "own")
    monkeypatch.setenv("PYTHONPATH", str(settings.ROOT))
    write_fixture.main(tmp_path / "written.sql")
    folder = tmp_path / "loaded"
    folder.mkdir()
    test_what_waited_before_an_upgrade_is_decided_after_it_and_goes_on(
        environment_with((tmp_path / "written.sql").read_text(), folder)
    )


def test_what_waited_before_an_upgrade_is_decided_after_it_and_goes_on(environment: dict[str, str]):
    """CASES C190: an open approval, an answered sibling, an answer not yet claimed, two expired requests, one overdue, a run
    blocked by an unknown effect, and a worker in the middle of compensation, which keeps its lease."""
    run_command("migrate", environment=environment)
    done = subprocess.run(
        [sys.executable, "-m", "tests.upgrades.afterwards"],
        env=environment,
        cwd=settings.ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told.pop("before") == {
        "open": "waiting",
        "two": "waiting",
        "decided": "ready",
        "expired": "expired",
        "resumed": "ready",
        "overdue": "waiting",
        "blocked": "blocked",
        "taking back": "cancelling",
    }
    assert told == {
        "wrong rows before": [],
        "wrong rows after": [],
        "open": ["accepted", ["approve"]],
        "two": ["accepted", ["answer", "approve"]],
        "decided": ["approve"],
        "resumed": [""],
        "overdue": [""],
        "taking back": {"first": "compensated", "second": "compensated", "third": "compensated"},
        "after": {
            "open": "completed",
            "two": "completed",
            "decided": "completed",
            "expired": "expired",
            "resumed": "completed",
            "overdue": "completed",
            "blocked": "ready",
            "taking back": "cancelled",
        },
    }
    figures.count(
        "runs under way in a database of an earlier release (runs 0022), upgraded", "0 broken", n=len(told["after"])
    )
