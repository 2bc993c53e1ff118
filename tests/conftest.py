"""Fixtures of every test: no network beyond this machine, no outbound call while a transaction is open, its own files,
a seed, and the report of its counts for the promises of reliability."""

from __future__ import annotations

import contextlib
import gc
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
from django.db.backends.sqlite3.creation import DatabaseCreation
from hypothesis import HealthCheck, settings

from ledger.transactions import assert_no_transaction
from tests import figures, sampling
from tests.unguarded import TABLES_OF_MIGRATIONS, statements_that_empty, without_triggers

_numbers = itertools.count(1)


class OutsideNetwork(Exception):
    """A test reached beyond this machine."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--only-with-database", action="store_true", help="leave out tests whose result is the same on SQLite"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Use one seed (``figures.SEED``) for everything random; no test fails because its machine is slow."""
    gc.disable()  # until ``pytest_collection_finish``: collecting tests makes no garbage to speak of
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(figures.SEED)
    health = [HealthCheck.too_slow, HealthCheck.data_too_large]
    settings.register_profile("reviewqueue", database=None, deadline=None, suppress_health_check=health)
    settings.load_profile("reviewqueue")


@pytest.fixture(autouse=True)
def chance(request: pytest.FixtureRequest) -> None:
    """Seed ``random`` for each test, so that the tests before it in this process change nothing."""
    random.seed(f"{figures.SEED} {request.node.nodeid}")


@pytest.hookimpl(trylast=True)  # after ``-m`` and ``-k``
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--only-with-database"):
        leave_out(config, items, [item for item in items if runs_on_each_database(item)])
    if sampling.SHARE:
        before = len(items)
        leave_out(config, items, sampling.selected_tests(items))
        if os.environ.get("PYTEST_XDIST_WORKER", "gw0") == "gw0":  # every worker leaves out the same
            sampling.report_left_out(before - len(items))


def pytest_collection_finish() -> None:
    """Exempt what was imported and collected, a million objects that stay, from every garbage collection."""
    gc.freeze()
    gc.enable()


def leave_out(config: pytest.Config, items: list[pytest.Item], kept: list[pytest.Item]) -> None:
    wanted = set(kept)
    config.hook.pytest_deselected(items=[item for item in items if item not in wanted])
    items[:] = kept


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings_parallel_suffix: None) -> None:
    """Let a test database on SQLite begin as a copy of the one that ``tests/run.py`` has migrated.

    On PostgreSQL Django's own setting ``TEMPLATE`` does this (``tests/settings.py``).
    """
    template = os.environ.get("REVIEWQUEUE_TEMPLATE", "")
    if not template.startswith("sqlite"):
        return
    create = DatabaseCreation._create_test_db

    def create_and_copy(self: DatabaseCreation, *arguments: Any, **named: Any) -> str:
        name = create(self, *arguments, **named)
        shutil.copyfile(template.removeprefix("sqlite:///"), name)
        return name

    DatabaseCreation._create_test_db = create_and_copy


@pytest.fixture(autouse=True, scope="session")
def flush_without_guards() -> Iterator[None]:
    """Let the flush after a transactional test empty append-only tables too, and on PostgreSQL only tables with rows.

    It keeps the content types and permissions of Django, which only migrations write, and need not make them again.
    """
    flush = BaseDatabaseOperations.execute_sql_flush

    def unguarded(self: BaseDatabaseOperations, sql_list: Any) -> None:
        if self.connection.vendor == "postgresql":
            sql_list = statements_that_empty()
        else:
            sql_list = [
                sql for sql in sql_list if not sql.endswith(tuple(f' "{table}";' for table in TABLES_OF_MIGRATIONS))
            ]
        with without_triggers():
            flush(self, sql_list)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BaseDatabaseOperations, "execute_sql_flush", unguarded)
        patch.setattr("django.core.management.commands.flush.emit_post_migrate_signal", lambda *_: None)
        yield


@pytest.fixture(autouse=True, scope="session")
def static_files_listed_once() -> Iterator[None]:
    """Let all test clients of a process share one list of the static files: each makes its own middleware."""
    from whitenoise.middleware import WhiteNoiseMiddleware

    list_files = WhiteNoiseMiddleware.add_files_from_finders
    listed: dict[str, Any] = {}

    def list_files_once(self: WhiteNoiseMiddleware) -> None:
        if self.static_prefix not in listed:
            list_files(self)
            listed[self.static_prefix] = dict(self.files)
        self.files.update(listed[self.static_prefix])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WhiteNoiseMiddleware, "add_files_from_finders", list_files_once)
        yield


#: Tests of programs and texts around the product. Other tests cover the statements that they cause on both databases.
ON_ONE_DATABASE = (
    "tests/adapters/",
    "tests/clients/",
    "tests/deploy/",
    "tests/serving/test_slow_clients.py",
    "tests/planted/test_planted.py::test_a_planted_fault_is_caught[a_body_has_all_the_time_it_wants]",
    "tests/planted/test_planted.py::test_a_planted_fault_is_caught[a_long_poll_keeps_its_share_while_waiting]",
    "tests/planted/test_planted.py::test_a_planted_fault_is_caught[a_request_takes_its_thread_before_its_body_is_there]",
    "tests/pages/test_agent_text.py",
    "tests/pages/test_call_labels.py",
    "tests/pages/test_date_time_fields.py",
    "tests/pages/test_disguised_calls.py",
    "tests/pages/test_every_schema_can_be_answered.py",
    "tests/pages/test_form_lists_and_alternatives.py",
    "tests/pages/test_forms.py",
    "tests/pages/test_hidden_characters.py",
    "tests/pages/test_large_values.py",
    "tests/pages/test_rendered_forms.py",
    "tests/pages/test_value_browser.py",
    "tests/pages/test_values.py",
    # Refused by the method, the media type, the syntax, the CSRF token or an unknown member, before the view writes a row.
    "tests/attack/test_page_authority.py::test_no_other_method_does_anything",
    "tests/attack/test_page_authority.py::test_nothing_is_changed_by_a_form_of_another_site",
    "tests/attack/test_payloads.py::test_a_body_in_another_form_is_refused",
    "tests/attack/test_payloads.py::test_a_hostile_body_is_refused_by_validation",
    "tests/attack/test_payloads.py::test_an_unknown_member_is_refused_with_its_pointer",
    # An error that the test itself raises, in place of the view or of the check of the key.
    "tests/attack/test_secrets.py::test_no_fault_on_a_page_reports_what_was_sent",
    "tests/attack/test_secrets.py::test_no_fault_behind_the_api_reports_what_was_sent",
    # Lines of the log, whatever the database is.
    "tests/reviewqueue/test_logs.py",
    "tests/serving/test_http_metrics.py",
    # A body compared with a schema, a text about an event that is never stored, a page without a row.
    "tests/api/test_document.py::test_a_good_request_fits_the_schema_of_its_body",
    "tests/api/test_problems.py::test_the_type_of_a_problem_is_an_open_page",
    "tests/pages/test_timeline_text.py::test_no_sentence_without_a_person_lacks_its_subject",
    "tests/pages/test_timeline_text.py::test_what_a_person_did_is_one_sentence_that_names_them",
    # Headers that middleware sets on every response, whatever the view does.
    "tests/reviewqueue/test_request_ids.py",
    "tests/reviewqueue/test_sessions.py::test_no_page_is_stored_in_a_cache",
)


def runs_on_each_database(item: pytest.Item) -> bool:
    return touches_database(item) and not item.nodeid.startswith(ON_ONE_DATABASE)


def touches_database(item: pytest.Item) -> bool:
    marked = item.get_closest_marker("django_db") is not None
    return marked or bool({"db", "transactional_db", "live_server"} & set(getattr(item, "fixturenames", ())))


@pytest.fixture(autouse=True)
def known_reasons(request: pytest.FixtureRequest, _django_db_marker: None) -> None:
    """Restore the policies that migrations create: the flush after a transactional test has deleted them."""
    if not touches_database(request.node):
        return
    request.getfixturevalue("_django_db_helper")
    restore_policies()


def restore_policies() -> None:
    from django.apps import apps

    if not apps.get_model("runs", "Policy").objects.exists():
        importlib.import_module("runs.migrations.0001_tables").create_policies(apps, None)
        migration = importlib.import_module("runs.migrations.0002_recorded_permissions_and_guards")
        with without_triggers():
            migration.keep_what_policies_allowed(apps, None)
        migration.record_what_is_configured(apps, None)


@pytest.fixture(autouse=True)
def own_files(request: pytest.FixtureRequest) -> Iterator[None]:
    """Give each test with a database its own file storage, and delete it afterwards."""
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
    """Guard the socket, below every client library. The database drivers do not use it."""
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
    assert_no_transaction()


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


# --- counts for the promises ------------------------------------------------------------------------------------

#: Of this run; with several processes, the one that reports the results has all of them.
PROOFS: list[figures.Proof] = []


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Add the promises and counts of a test to its report."""
    promises = sorted({promise for mark in item.iter_markers("proves") for promise in mark.args})
    if call.when == "call":
        counted = figures.take()
        assert promises or not counted, f"{item.nodeid} counts for no promise: @pytest.mark.proves(...)"
        if promises:
            item.user_properties += [("promises", promises), ("counted", counted)]
    yield


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    sent = dict(report.user_properties)
    if "promises" in sent and report.when == "call" and "PYTEST_XDIST_WORKER" not in os.environ:
        counted = [(what, result, n, of) for what, result, n, of in sent["counted"]]
        outcome, promises = report.outcome, sent["promises"]
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
