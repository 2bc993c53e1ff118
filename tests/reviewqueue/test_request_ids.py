"""Request ids: in every response, in every problem, in every log line, so that a 500 is matched with its traceback."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.conf import settings
from django.test import Client

from reviewqueue import tasks
from reviewqueue.api import base_view
from reviewqueue.serving import request_ids
from reviewqueue.serving.request_ids import AddRequestId, choose_request_id, current_request_id
from tests.api.calls import Caller, a_worker
from tests.attack.page_routes import PAGES, a_page_world
from tests.attack.routes import ROUTES, a_world

pytestmark = pytest.mark.django_db

MADE = re.compile(r"req_[0-9a-f]{20}")


@contextmanager
def written_lines() -> Iterator[list[str]]:
    """What the log's own handler would write of every record."""
    written: list[str] = []
    handler = logging.StreamHandler()
    handler.emit = lambda record: written.append(handler.format(record))  # type: ignore[method-assign]
    handler.setFormatter(logging.Formatter(settings.LOGGING["formatters"]["line"]["format"], style="{"))
    for name in settings.LOGGING["handlers"]["stderr"]["filters"]:
        assert settings.LOGGING["filters"][name]["()"] == "reviewqueue.serving.request_ids.AddRequestId"
        handler.addFilter(AddRequestId())
    logging.getLogger().addHandler(handler)
    try:
        yield written
    finally:
        logging.getLogger().removeHandler(handler)


@pytest.fixture
def lines() -> Iterator[list[str]]:
    with written_lines() as written:
        yield written


@pytest.mark.parametrize("sent", ["a", "req_1", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "A" * 64])
def test_a_clients_own_id_is_kept(sent):
    assert choose_request_id(sent) == sent
    assert Client(headers={"X-Request-ID": sent}).get("/healthz")["X-Request-ID"] == sent


@pytest.mark.parametrize("sent", ["", "A" * 65, "a b", "a\nb", "-a", "é", "<script>", "a\x00", "{request_id}", '"'])
def test_an_id_that_could_forge_a_log_line_is_replaced(sent):
    assert MADE.fullmatch(choose_request_id(sent))


def test_two_requests_have_two_ids():
    one, two = (Client().get("/healthz")["X-Request-ID"] for _ in range(2))
    assert MADE.fullmatch(one)
    assert one != two


@pytest.mark.parametrize("route", ROUTES, ids=" ".join)
def test_every_route_of_the_api_answers_with_the_id(route):
    world = a_world()
    good = ROUTES[route].good(world)
    for caller in (Caller(), world.reviewer, world.worker):
        reply = caller.call(route[0], good.path, good.body, raw=good.raw, **{**good.headers, "X_Request_ID": "mine-7"})
        assert reply.headers["X-Request-ID"] == "mine-7"
        if reply.status >= 400:
            assert reply["request_id"] == "mine-7"


def test_every_page_answers_with_the_id():
    world = a_page_world()
    for kind in ("nobody", "reviewer", "operator"):
        browser = world.browser_of(kind)
        for page in PAGES.values():
            reply = browser.get(page.address(world), headers={"X-Request-ID": "mine-8"})
            assert reply["X-Request-ID"] == "mine-8"


@pytest.mark.parametrize(
    "path", ["/static/app.css", "/static/nothing", "/nothing", "/api/v1/nothing", "/metrics", "/readyz", "/admin/", "/"]
)
def test_static_files_and_errors_have_an_id(path):
    reply = Client().get(path)
    reply.close()
    assert MADE.fullmatch(reply["X-Request-ID"])


def test_a_host_that_is_not_ours_is_refused_with_an_id():
    assert MADE.fullmatch(
        Client(raise_request_exception=False).get("/", headers={"host": "evil.example"})["X-Request-ID"]
    )


def fail(*_: object) -> None:
    logging.getLogger("reviewqueue.somewhere").warning("on the way")
    raise ZeroDivisionError


def test_a_500_of_the_api_is_matched_with_its_traceback(monkeypatch, lines):
    monkeypatch.setattr(base_view, "validated_query", fail)
    reply = a_worker().get("agents/me")
    found = [line for line in lines if f"[{reply['request_id']}]" in line]
    assert (reply.status, reply.headers["X-Request-ID"]) == (500, reply["request_id"])
    assert "on the way" in found[0]
    assert "ZeroDivisionError" in found[1]


def test_a_500_page_names_the_id_of_its_traceback(monkeypatch, lines):
    monkeypatch.setattr("reviewqueue.middleware.disable_caching", lambda get_response: fail)
    page = Client(raise_request_exception=False).get("/account/login/")
    request_id = page["X-Request-ID"]
    assert page.status_code == 500
    assert f"<code>{request_id}</code>" in page.text
    assert "give this request id to your operator" in page.text
    [traceback] = [line for line in lines if "ZeroDivisionError" in line]
    assert f"[{request_id}]" in traceback


def test_an_unforeseen_500_is_a_problem_for_a_program(monkeypatch):
    monkeypatch.setattr("reviewqueue.middleware.disable_caching", lambda get_response: fail)
    reply = Client(raise_request_exception=False).get("/api/v1/runs", headers={"X-Request-ID": "mine"})
    assert (reply.status_code, reply["Content-Type"]) == (500, "application/problem+json")
    assert (reply.json()["code"], reply.json()["request_id"]) == ("internal_error", "mine")


def test_a_refused_page_is_logged_with_its_id(lines):
    page = Client().get("/nothing-here")
    assert any(f"[{page['X-Request-ID']}]" in line and "Not Found" in line for line in lines)


def test_a_line_outside_of_every_request_has_a_dash(lines):
    logging.getLogger("reviewqueue.somewhere").warning("alone")
    assert "[-]: alone" in lines[-1]
    assert current_request_id() == request_ids.NONE


def test_another_threads_line_does_not_carry_this_requests_id_and_its_own_does():
    with written_lines() as lines, request_ids.using_id("mine"):
        thread = threading.Thread(target=logging.getLogger("reviewqueue.x").warning, args=["beside"])
        thread.start()
        thread.join()
        logging.getLogger("reviewqueue.x").warning("here")
    assert "[-]: beside" in lines[0]
    assert "[mine]: here" in lines[1]


def test_the_lines_of_a_task_carry_an_id_of_that_task(lines):
    tasks.entry_point(logging.getLogger("reviewqueue.x").warning)("in a task")
    assert re.search(r"\[task_[0-9a-f]{20}\]: in a task", lines[-1])
