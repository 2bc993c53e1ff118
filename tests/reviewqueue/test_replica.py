"""Lists and figures from a replica: what is read there, what never is, and what happens while it is away or behind."""

from __future__ import annotations

import contextlib
import re
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import InterfaceError, OperationalError, connections, router
from django.http import HttpResponse
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from reviewqueue.operations import environment
from reviewqueue.queries import replica
from runs.models import Run
from tests import builders, own_processes
from tests.faults_under_load import cluster
from tests.running_server import SETUP_COMMANDS, RunningServer

MEASURE = replica.measure_lag  # of the product; the fixture replaces it
PAGES = ("runs", "expired", "insights", "insights-csv")
OF_PERMISSIONS = {"auth_user", "auth_group", "auth_user_groups", "runs_agent", "runs_queue", "reviewqueue_apikey"}


@pytest.fixture
def lag(monkeypatch: pytest.MonkeyPatch, transactional_db: None) -> Iterator[list[float | None]]:
    """A second connection to the suite's database plays the replica, with this lag in seconds."""
    measured: list[float | None] = [0.0]
    connection = connections["default"].copy(alias=replica.ALIAS)
    connection.ensure_connection()  # before Django knows the alias: a test may open those of its own databases only
    monkeypatch.setitem(settings.DATABASES, replica.ALIAS, connection.settings_dict)
    connections[replica.ALIAS] = connection
    monkeypatch.setattr(router, "routers", [replica.ReplicaRouter()])
    monkeypatch.setattr(replica, "_replica", replica._Replica())
    monkeypatch.setattr(replica, "measure_lag", lambda: measured[0])
    yield measured
    connections[replica.ALIAS].close()
    del connections[replica.ALIAS]


def read_page(page: str) -> tuple[Any, list[str]]:
    """Return the response to a reviewer, and the statements on the replica."""
    client = Client()
    client.force_login(builders.a_reviewer())
    with CaptureQueriesContext(connections[replica.ALIAS]) as there:
        response = client.get(reverse(page))
    assert response.status_code == 200
    return response, [query["sql"] for query in there.captured_queries]


@pytest.mark.postgresql
@pytest.mark.parametrize("page", PAGES)
def test_lists_and_figures_are_read_there_and_permissions_never(lag: list[float | None], page: str):
    builders.a_waiting_interrupt()
    response, statements = read_page(page)
    assert response.headers[replica.HEADER] == "0"
    assert statements
    assert not [sql for sql in statements if not sql.lstrip().startswith(("SELECT", "WITH", "("))]
    assert not {table for sql in statements for table in re.findall(r'^SELECT .*? FROM "(\w+)"', sql)} & OF_PERMISSIONS


@pytest.mark.postgresql
def test_a_list_says_how_old_its_data_are_and_one_beyond_the_bound_is_read_from_the_primary(lag: list[float | None]):
    lag[0] = 7.4
    response, statements = read_page("runs")
    assert (response.headers[replica.HEADER], bool(statements)) == ("7", True)
    assert "This page shows the data of 7 seconds ago." in response.content.decode()
    for unusable in (settings.REPLICA_MAX_LAG + 0.1, None):
        lag[0], replica._replica = unusable, replica._Replica()
        response, statements = read_page("runs")
        assert (replica.HEADER in response.headers, statements) == (False, [])
        assert "seconds ago." not in response.content.decode()


@pytest.mark.postgresql
def test_a_list_whose_read_fails_there_is_read_from_the_primary(
    lag: list[float | None], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    lag[0] = 3.0
    client = Client()
    client.force_login(builders.a_reviewer())

    def fail(execute: Any, *statement: Any) -> Any:
        raise OperationalError("canceling statement due to conflict with recovery")

    with connections[replica.ALIAS].execute_wrapper(fail):
        response = client.get(reverse("runs"))
        assert response.status_code == 200
        assert replica.HEADER not in response.headers
        assert "seconds ago." not in response.content.decode()
        assert client.get(reverse("runs")).status_code == 200
    assert caplog.text.count("The replica is not read for 5 s: canceling statement") == 1


@pytest.mark.postgresql
@pytest.mark.parametrize("fault", [OperationalError, InterfaceError])
def test_a_replica_whose_lag_cannot_be_measured_is_not_read(
    lag: list[float | None], monkeypatch: pytest.MonkeyPatch, fault: type[Exception]
):
    def fail() -> float:
        raise fault("connection already closed")

    monkeypatch.setattr(replica, "measure_lag", fail)
    response, statements = read_page("runs")
    assert (replica.HEADER in response.headers, statements) == (False, [])


def test_a_replica_that_does_not_answer_delays_no_other_request(monkeypatch: pytest.MonkeyPatch):
    answers, asked = threading.Event(), threading.Event()

    def measure() -> float:
        asked.set()
        answers.wait(30)
        return 0.0

    monkeypatch.setattr(replica, "measure_lag", measure)
    known = replica._Replica()
    frozen = threading.Thread(target=known.lag)
    frozen.start()
    try:
        assert asked.wait(30)
        started = time.monotonic()
        assert known.lag() is None
        assert time.monotonic() - started < 5
    finally:
        answers.set()
        frozen.join()
    assert known.lag() == 0.0


@pytest.mark.postgresql
def test_a_fault_of_the_primary_is_not_one_of_the_replica(lag: list[float | None], caplog: pytest.LogCaptureFixture):
    @replica.reads_replica
    def view(_subject: object) -> HttpResponse:
        with connections["default"].cursor() as cursor:
            cursor.execute("SELECT pg_sleep(0) FROM no_such_table")
        return HttpResponse()

    def lose(execute: Any, *statement: Any) -> Any:
        with connections["default"].wrap_database_errors:
            raise psycopg.OperationalError("the primary is away")

    with connections["default"].execute_wrapper(lose), pytest.raises(OperationalError, match="the primary is away"):
        view(object())
    assert "The replica is not read" not in caplog.text


@pytest.mark.postgresql
def test_a_standby_of_another_database_is_not_read(lag: list[float | None], monkeypatch: pytest.MonkeyPatch):
    """The statements are those of the product; this answers what a standby would."""
    identifiers = {"default": 1, replica.ALIAS: 1}
    places = {"default": "0/5000", replica.ALIAS: "0/5000"}

    def answer(alias: str) -> Any:
        def execute(run: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
            place = f"'{places[replica.ALIAS]}'"
            sql = sql.replace("pg_last_wal_replay_lsn()", f"{place}::pg_lsn").replace("pg_is_in_recovery()", "true")
            sql = sql.replace("pg_last_xact_replay_timestamp()", "clock_timestamp()")
            sql = sql.replace("pg_current_wal_lsn()", f"'{places['default']}'::pg_lsn")
            sql = sql.replace("SELECT system_identifier FROM pg_control_system()", f"SELECT {identifiers[alias]}")
            return run(sql, params, many, context)

        return execute

    with contextlib.ExitStack() as answering:
        for alias in identifiers:
            answering.enter_context(connections[alias].execute_wrapper(answer(alias)))
        assert MEASURE() == 0.0
        places[replica.ALIAS] = "0/6000"
        assert MEASURE() is None, "it has changes that the primary does not have"
        places[replica.ALIAS] = "0/4000"
        assert MEASURE() is not None
        identifiers[replica.ALIAS] = 2
        assert MEASURE() is None


@pytest.mark.postgresql
def test_a_list_after_a_change_is_read_from_the_primary(lag: list[float | None]):
    interrupt = builders.a_waiting_interrupt()
    client = Client()
    client.force_login(builders.a_reviewer())
    client.post(reverse("restart-expired", args=[interrupt.public_id]), {"reason": ""})  # refused, with a message
    changed = client.get(reverse("expired"))
    assert "reason" in changed.content.decode()
    assert replica.HEADER not in changed.headers
    assert replica.HEADER in client.get(reverse("expired")).headers


@pytest.mark.postgresql
def test_a_row_that_was_read_there_is_written_on_the_primary(lag: list[float | None]):
    run = builders.a_running_run().run
    [there] = Run.objects.using(replica.ALIAS).filter(pk=run.pk)
    assert router.db_for_write(Run, instance=there) == "default"
    assert router.db_for_read(Run) == "default", "outside a marked view"
    assert not router.allow_migrate(replica.ALIAS, "runs")


def test_a_replica_is_for_postgresql_and_needs_no_server_that_accepts_writes():
    url = "postgresql://ana@db-2.example.org/queue"
    made = environment.databases("postgresql://db/queue", direct="", replica=url, process="web", pool_size=3)
    assert made["replica"]["OPTIONS"]["target_session_attrs"] == "any"
    assert made["replica"]["OPTIONS"]["connect_timeout"] == "2"
    assert made["replica"]["OPTIONS"]["options"].startswith("-c statement_timeout=30s -c ")
    assert "statement_timeout" not in made["default"]["OPTIONS"]["options"]
    with pytest.raises(ImproperlyConfigured, match="REPLICA_DATABASE_URL"):
        environment.databases("sqlite:///x.sqlite3", direct="", replica=url, process="web", pool_size=3)


@pytest.mark.long
@pytest.mark.postgresql
@pytest.mark.django_db(transaction=True)
def test_a_real_standby_serves_lists_until_it_lags_or_is_away(tmp_path: Path):
    with cluster.started("asynchronous") as servers, contextlib.ExitStack() as until_the_end:
        there = f"postgresql://postgres@/{servers.database}?host={servers.standby.home}"
        primary = f"postgresql://postgres@/{servers.database}?host={servers.primary.home}"
        port = own_processes.free_port()
        own = own_processes.environment_for(primary, PORT=str(port), WEB_PROCESSES="1", REPLICA_DATABASE_URL=there)
        own |= {"BASE_URL": f"http://127.0.0.1:{port}", "REPLICA_MAX_LAG": "3"}
        printed = own_processes.run_commands(["migrate --verbosity 0", *SETUP_COMMANDS], environment=own)
        token, key, *_ = re.findall(r"rq_[0-9a-z]+_[A-Za-z0-9_-]{43}", printed)
        log = tmp_path / "web.log"
        until_the_end.enter_context(own_processes.started("web", environment=own, log=log))
        desk = RunningServer(f"http://127.0.0.1:{port}", key, token, own)

        def age() -> str | None:
            address = f"{desk.base}/api/v1/insights"
            request = urllib.request.Request(address, headers={"Authorization": f"Bearer {token}"})  # noqa: S310
            with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310
                return str(response.headers[replica.HEADER]) if response.headers[replica.HEADER] else None

        own_processes.eventually(lambda: _quietly(age) == "0", within=60, log=log)
        servers.standby.execute("SELECT pg_wal_replay_pause()")
        desk.call("POST", "runs", {"key": "PR-1", "title": "Buy"}, key=key)
        own_processes.eventually(lambda: age() in ("1", "2", "3"), within=30, log=log)
        own_processes.eventually(lambda: age() is None, within=30, log=log)
        servers.standby.execute("SELECT pg_wal_replay_resume()")
        own_processes.eventually(lambda: age() == "0", within=30, log=log)
        servers.standby.kill()
        for _ in range(3):
            assert age() is None, "no request fails"


def _quietly(read: Any) -> Any:
    try:
        return read()
    except OSError:
        return ""
