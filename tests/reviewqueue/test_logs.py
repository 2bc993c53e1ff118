"""JSON logs and the access log: one object for each record, with public ids, from every process; no secret in them."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db.models import Q
from django.test import Client

from ledger import log_context
from reviewqueue import tasks
from reviewqueue.serving import access_log, http_metrics
from reviewqueue.serving.json_log import JsonFormatter
from reviewqueue.serving.request_ids import AddRequestId
from runs import locks
from runs.models import Run
from runs.sweep import sweep_rows
from tests import builders, own_processes
from tests.attack.outputs import write_access_line
from tests.attack.routes import a_world
from tests.pages import desk
from tests.running_server import running_server
from tests.serving.test_asgi_bridge import a_scope, application, call, echo

pytestmark = pytest.mark.django_db


class Lines(logging.Handler):
    """Every record as the line that ``LOG_FORMAT=json`` writes."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[dict[str, Any]] = []
        self.setFormatter(JsonFormatter())
        self.addFilter(AddRequestId())

    def emit(self, record: logging.LogRecord) -> None:
        line = self.format(record)
        assert len(line.splitlines()) == 1
        self.written.append(json.loads(line))


@pytest.fixture
def lines() -> Iterator[list[dict[str, Any]]]:
    handler, root, level = Lines(), logging.getLogger(), access_log.log.level
    root.addHandler(handler)
    access_log.log.setLevel(logging.INFO)
    yield handler.written
    access_log.log.setLevel(level)
    root.removeHandler(handler)


def test_a_record_is_one_line_with_its_traceback_and_the_members_of_the_product_only(lines):
    with log_context.log_context(request_id="req_1", run="run_1"):
        try:
            raise ValueError("first\nsecond\u2028third")
        except ValueError:
            logging.getLogger("reviewqueue.x").exception("it\nbroke", extra={"pk": 7, "run": "other", "row": object()})
    logging.getLogger("django_q").warning("a library", extra={"token": "secret"})
    own, library = lines[-2:]
    assert (own["message"], own["level"], own["request_id"], own["run"]) == ("it\nbroke", "ERROR", "req_1", "run_1")
    assert own["pk"] == 7
    assert "row" not in own
    assert own["exception"].endswith("ValueError: first\nsecond\u2028third")
    assert own["time"].endswith("+00:00")
    assert library["message"] == "a library"
    assert "token" not in library
    assert "request_id" not in library


def access_lines(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [line for line in lines if line["logger"] == "reviewqueue.access"]


def test_the_access_log_names_route_status_caller_run_and_interrupt_and_no_path(lines):
    world = a_world()
    run, _ = world.run()
    headers = {"Authorization": f"Bearer {world.worker.key}", "X-Request-ID": "mine-1"}
    write_access_line(Client().get(f"/api/v1/runs/{run}", headers=headers))
    [line] = access_lines(lines)
    assert (line["method"], line["route"], line["status"]) == ("GET", "api/v1/runs/<id:run_id>", 200)
    assert (line["request_id"], line["run"], line["client"]) == ("mine-1", run, "192.0.2.1")
    assert line["agent"] == world.worker.get("agents/me")["agent"]["slug"]
    assert (line["ms"], line["waited_ms"], line["bytes"]) == (12.3, 0, 3)
    assert line["message"].startswith("GET api/v1/runs/<id:run_id> 200, 12.3 ms, 3 bytes, agent ")
    assert "secret" not in json.dumps(lines)
    assert world.worker.key not in json.dumps(lines)


def test_probes_are_logged_only_when_they_fail(lines):
    for path in ("/healthz", "/readyz", "/metrics", "/nothing-here/secret"):
        write_access_line(Client().get(path, REMOTE_ADDR="127.0.0.1"))
    write_access_line(Client().generic("BREW", "/healthz"))
    found = [(line["method"], line["route"], line["status"]) for line in access_lines(lines)]
    assert found == [("GET", "readyz", 503), ("GET", "unknown", 404), ("other", "healthz", 405)]


def test_every_request_of_the_server_is_logged_and_counted_also_one_that_is_refused_before_its_view(lines):
    before = counted("POST")
    app = application(echo)
    headers = {"HOST": "localhost", "X_REQUEST_ID": "mine-2"}
    too_large = a_scope("/form", "POST", **headers, CONTENT_LENGTH="2000")
    for scope in (a_scope("/form", "POST", **headers), too_large):
        asyncio.run(call(app, scope))
    first, second = access_lines(lines)
    assert (first["status"], second["status"]) == (201, 413)
    assert all(line["request_id"] == "mine-2" and line["bytes"] > 10 for line in (first, second))
    assert counted("POST") - before == Counter({"2xx": 1, "4xx": 1})


def counted(method: str) -> Counter[str]:
    """Requests of this process that matched no route, by status."""
    return Counter(
        {
            status: number
            for line in http_metrics.list_requests()
            for status, number in line.by_status.items()
            if (line.method, line.route) == (method, http_metrics.UNKNOWN)
        }
    )


def test_a_line_of_a_page_has_the_number_of_the_person_and_not_the_address(lines):
    ana = builders.a_reviewer()
    interrupt = builders.a_waiting_interrupt()
    client = desk.signed_in(ana)
    assert client.get("/nothing-here").status_code == 404
    [line] = [line for line in lines if line["logger"] == "django.request"]
    assert line["person"] == str(ana.pk)
    assert client.post(f"/interrupts/{interrupt.public_id}/claim").status_code < 400
    assert "ana@" not in json.dumps(lines)


def test_an_id_in_an_address_is_logged_only_if_it_looks_like_one(lines):
    client = desk.signed_in(builders.a_reviewer())
    client.get("/interrupts/Zq7marker0secret0Zq7")
    client.get("/interrupts/int_0000")
    found = [line.get("interrupt") for line in lines if line["logger"] == "django.request"]
    assert found == [None, "int_0000"]


def test_a_row_that_fails_in_a_sweep_is_logged_with_its_run_and_the_next_line_without(lines):
    run = builders.a_running_run().run

    def fail(pk: int) -> bool:
        locks.lock_run(pk)
        raise ZeroDivisionError

    def sweep() -> None:
        sweep_rows(Run.objects.all(), Q(), "pk", fail, limit=5)
        logging.getLogger("reviewqueue.x").warning("afterwards")

    tasks.entry_point(sweep)()
    failed, after = lines[-2:]
    assert (failed["run"], failed["agent"], failed["pk"]) == (run.public_id, run.agent.slug, run.pk)
    assert failed["request_id"] == after["request_id"]
    assert failed["request_id"].startswith("task_")
    assert "run" not in after


def test_a_request_about_several_runs_names_none_of_them_in_the_access_log(lines):
    context = log_context.LogContext({"request_id": "r", "agent": "a"})
    token = log_context._current.set(context)
    log_context.note_run("run_1", interrupt="int_1")
    log_context.note_run("run_2")
    assert context.ids == {"request_id": "r", "agent": "a", "run": "run_2"}
    environ = {"REQUEST_METHOD": "POST", "PATH_INFO": "/"}
    access_log.record_request(environ, context, client="::1", status=200, size=0, seconds=0.1)
    log_context._current.reset(token)
    [line] = access_lines(lines)
    assert (line["agent"], "run" in line) == ("a", False)


def test_the_agent_of_a_run_is_forgotten_when_another_run_follows():
    with log_context.log_context(request_id="task_1") as context:
        log_context.note_run("run_1", agent="buyer")
        log_context.note_run("run_1", agent="buyer")
        log_context.note_run("run_2")
        assert context.ids == {"request_id": "task_1", "run": "run_2"}
        log_context.note_run("run_3", agent="seller")
        with log_context.part_of_task():
            log_context.note_run("run_4")
            assert log_context.current().ids == {"request_id": "task_1", "run": "run_4"}
        assert context.ids == {"request_id": "task_1", "run": "run_3", "agent": "seller"}


@pytest.mark.slow
def test_web_and_worker_write_only_json_objects_to_the_log(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("LOG_FORMAT", "json")
    with running_server(tmp_path) as server:
        worker_log = tmp_path / "worker.log"
        with own_processes.started("worker", environment=server.environment, log=worker_log) as worker:
            run = server.call("POST", "runs", {"key": "one", "title": "One"}, key=server.key)["id"]
            own_processes.eventually(lambda: "cluster started" in worker_log.read_text(), within=60, log=worker_log)
            worker.terminate()
            worker.wait(60)
    written = (tmp_path / "web.log").read_text().splitlines()
    found = [json.loads(line) for line in written if not line.startswith("Serving http")]
    posted = [line for line in found if line.get("route") == "api/v1/runs" and line["method"] == "POST"]
    assert [(line["process"], line["agent"], line["run"], line["status"]) for line in posted] == [
        ("web", "buyer", run, 201)
    ]
    assert {json.loads(line)["process"] for line in worker_log.read_text().splitlines()} == {"worker"}
