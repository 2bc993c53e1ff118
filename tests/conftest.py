"""What every test gets: no network beyond this machine, no outbound call while a transaction is open, and a place to
count what it saw of the promises that it proves."""

from __future__ import annotations

import contextlib
import importlib
import ipaddress
import itertools
import os
import random
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db.backends.base.operations import BaseDatabaseOperations
from hypothesis import HealthCheck, settings

from ledger.transactions import assert_none_open
from tests import figures
from tests.unguarded import without_guards

_numbers = itertools.count(1)


class OutsideNetwork(Exception):
    """A test reached beyond this machine."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--only-with-database", action="store_true", help="leave out tests that touch no database")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Let one seed decide what is drawn (``figures.SEED``), and no test fail for the speed of its machine."""
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(figures.SEED)
    health = [HealthCheck.too_slow, HealthCheck.data_too_large]
    settings.register_profile("reviewqueue", database=None, deadline=None, suppress_health_check=health)
    settings.load_profile("reviewqueue")


@pytest.fixture(autouse=True)
def chance(request: pytest.FixtureRequest) -> None:
    """What a test draws by ``random`` itself is its own, whichever tests ran before it in this process."""
    random.seed(f"{figures.SEED} {request.node.nodeid}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--only-with-database"):
        return
    left_out = [item for item in items if not touches_database(item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in set(left_out)]


@pytest.fixture(autouse=True, scope="session")
def flush_without_guards() -> Iterator[None]:
    """The flush after a transactional test empties append-only tables too, with their triggers out of the way."""
    flush = BaseDatabaseOperations.execute_sql_flush

    def unguarded(self: BaseDatabaseOperations, sql_list: Any) -> None:
        with without_guards():
            flush(self, sql_list)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BaseDatabaseOperations, "execute_sql_flush", unguarded)
        yield


def touches_database(item: pytest.Item) -> bool:
    marked = item.get_closest_marker("django_db") is not None
    return marked or bool({"db", "transactional_db", "live_server"} & set(getattr(item, "fixturenames", ())))


@pytest.fixture(autouse=True)
def known_reasons(request: pytest.FixtureRequest, _django_db_marker: None) -> None:
    """The policies that a migration brings: the flush after a transactional test takes them away, from whichever test
    the worker runs next."""
    if not touches_database(request.node):
        return
    request.getfixturevalue("_django_db_helper")
    from django.apps import apps

    if not apps.get_model("runs", "Policy").objects.exists():
        importlib.import_module("runs.migrations.0001_tables").create_policies(apps, None)
        migration = importlib.import_module("runs.migrations.0002_recorded_permissions_and_guards")
        with without_guards():
            migration.keep_what_policies_allowed(apps, None)
        migration.record_what_is_configured(apps, None)


@pytest.fixture(autouse=True)
def own_files(request: pytest.FixtureRequest) -> Iterator[None]:
    """A storage of its own for each test with a database, made by whoever writes into it, and gone afterwards."""
    if not touches_database(request.node):
        yield
        return
    from django.conf import settings

    folder = request.getfixturevalue("settings").MEDIA_ROOT = settings.MEDIA_ROOT / str(next(_numbers))
    yield
    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):
        folder.parent.rmdir()


@pytest.fixture(autouse=True)
def no_outside_network_and_no_call_in_a_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stands at the socket, below every client library; the database drivers don't pass here."""
    connect, connect_ex, getaddrinfo = socket.socket.connect, socket.socket.connect_ex, socket.getaddrinfo

    def guarded_connect(self: socket.socket, address: Any) -> None:
        judge(self, address)
        connect(self, address)

    def guarded_connect_ex(self: socket.socket, address: Any) -> int:
        judge(self, address)
        return connect_ex(self, address)

    def guarded_getaddrinfo(host: Any, *more: Any, **named: Any) -> Any:
        refuse_outside(host)
        return getaddrinfo(host, *more, **named)

    monkeypatch.setattr(socket.socket, "connect", guarded_connect)
    monkeypatch.setattr(socket.socket, "connect_ex", guarded_connect_ex)
    monkeypatch.setattr(socket, "getaddrinfo", guarded_getaddrinfo)


def judge(connecting: socket.socket, address: Any) -> None:
    if connecting.family not in (socket.AF_INET, socket.AF_INET6):
        return
    refuse_outside(address[0])
    assert_none_open()


def refuse_outside(host: Any) -> None:
    name = host.decode() if isinstance(host, bytes) else host
    if name in (None, "", "localhost"):
        return
    try:
        inside = ipaddress.ip_address(name).is_loopback
    except ValueError:
        inside = name.endswith(".localhost")
    if not inside:
        raise OutsideNetwork(f"A test wanted to reach {name}.")


# --- what was seen of the promises ------------------------------------------------------------------------------------

#: Of this run; where several processes share the tests, the one that tells how they ended has them all.
PROOFS: list[figures.Proof] = []


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Send what a test proves and has counted along with its report."""
    promises = sorted({promise for mark in item.iter_markers("proves") for promise in mark.args})
    if call.when == "call":
        counted = figures.take()
        assert promises or not counted, f"{item.nodeid} counts for no promise: @pytest.mark.proves(...)"
        if promises:
            item.user_properties += [("promises", promises), ("counted", counted)]
    yield


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    told = dict(report.user_properties)
    if "promises" in told and report.when == "call" and "PYTEST_XDIST_WORKER" not in os.environ:
        counted = [(what, came, n, of) for what, came, n, of in told["counted"]]
        outcome, promises = report.outcome, told["promises"]
        PROOFS.append(
            figures.Proof(database=_database(), test=report.nodeid, outcome=outcome, promises=promises, counted=counted)
        )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not PROOFS:
        return
    terminalreporter.section(f"promises, seed {figures.SEED}")
    for line in figures.table(figures.rows_of(PROOFS)):
        terminalreporter.write_line(line)
    if os.environ.get("REVIEWQUEUE_FIGURES"):
        figures.save(Path(os.environ["REVIEWQUEUE_FIGURES"]), PROOFS)


def _database() -> str:
    from django.conf import settings

    return "PostgreSQL" if "postgresql" in settings.DATABASES["default"]["ENGINE"] else "SQLite"
