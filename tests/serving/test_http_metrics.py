"""Counters of requests: each process adds to its own place, and the sums are those of all, also of one that died."""

from __future__ import annotations

import logging
import os

import pytest
from django.test import Client
from django.urls import get_resolver

from ledger.log_context import LogContext
from reviewqueue.serving import http_metrics
from reviewqueue.serving.access_log import record_request
from reviewqueue.serving.shared_counters import SharedCounters


def in_a_child(counters: SharedCounters, *amounts: tuple[int, float], stays: bool = False) -> int:
    """Add amounts in a forked process; it ends at once, or when the pipe that it returns is closed."""
    done, write_done = os.pipe()
    wait, end = os.pipe()
    if not (child := os.fork()):
        os.close(end)
        counters.add(amounts)
        os.write(write_done, b"x")
        if stays:
            os.read(wait, 1)
        os._exit(0)
    os.close(wait)
    os.read(done, 1)
    for descriptor in (done, write_done):
        os.close(descriptor)
    if stays:
        return end
    os.close(end)
    os.waitpid(child, 0)
    return -1


def test_the_counts_of_several_processes_are_added_and_those_of_a_dead_one_are_kept():
    counters = SharedCounters(columns=4, places=4)
    counters.add([(0, 1), (1, 0.5)])
    ends = [in_a_child(counters, (0, 2), (3, 1.25), stays=True) for _ in range(2)]
    for _ in range(5):  # each takes the place of the one that ended before it
        in_a_child(counters, (0, 10), (2, 1))
    assert counters.sums(0, 4) == [55, 0.5, 5, 2.5]
    assert counters.sums(2, 1) == [5]
    for end in ends:
        os.close(end)
    for _ in ends:
        os.wait()


def test_a_process_without_a_place_of_its_own_still_counts():
    counters = SharedCounters(columns=1, places=1)
    counters.add([(0, 1)])
    in_a_child(counters, (0, 1))
    assert counters.sums(0, 1) == [2]


@pytest.mark.parametrize(
    "path",
    [
        "/account/password/reset/key/1a-x-y/",
        "/api/v1/runs/run_1",
        "/account/passkeys/7/remove/",
        "/admin/runs/policy/",
        "/",
        "/api/none",
    ],
)
def test_the_pattern_of_every_path_has_a_line(path: str):
    assert http_metrics.counted_route(get_resolver().resolve(path).route) in http_metrics._lines()


def test_the_line_of_a_person_names_the_person_and_not_the_agent_of_the_run(caplog):
    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/", http_metrics.ROUTE: "runs/"}
    caplog.set_level(logging.INFO, "reviewqueue.access")
    record_request(
        environ, LogContext({"agent": "buyer", "person": "7"}), client="::1", status=200, size=0, seconds=0.1
    )
    assert "person 7" in caplog.text
    assert "agent buyer" not in caplog.text


def find_counts(route: str) -> http_metrics.RequestCounts:
    [found] = [it for it in http_metrics.list_requests() if (it.method, it.route) == ("GET", route)]
    return found


def find_durations(area: str) -> http_metrics.AreaDurations:
    [found] = [it for it in http_metrics.list_durations() if it.area == area]
    return found


@pytest.mark.parametrize(
    ("route", "area"),
    [
        ("api/v1/runs/<id:run_id>", "api"),
        ("admin/runs/policy/<path:object_id>/change/", "admin"),
        ("runs/<slug:run_id>", "page"),
        ("", "page"),
        ("readyz", "probe"),
        (http_metrics.STATIC, "static"),
        (http_metrics.UNKNOWN, "unknown"),
    ],
)
def test_durations_are_grouped_by_area(route: str, area: str):
    assert http_metrics.area_of(http_metrics.counted_route(route)) == area


@pytest.fixture
def own(monkeypatch) -> SharedCounters:
    counters = SharedCounters(columns=http_metrics.counters().columns, places=2)
    monkeypatch.setattr(http_metrics, "counters", lambda: counters)
    return counters


def count(method: str, route: str, *statuses: int) -> None:
    environ = {"REQUEST_METHOD": method, "PATH_INFO": "/x", http_metrics.ROUTE: route}
    for status in statuses:
        http_metrics.count_request(environ, status=status, seconds=0.02)


@pytest.mark.django_db
def test_a_scrape_stays_small_when_every_route_is_used(own):
    for route in http_metrics._lines():
        for method in ("GET", "POST"):
            count(method, route, 200, 404)
    assert len(Client().get("/metrics", REMOTE_ADDR="127.0.0.1").content) < 125_000


def test_a_caller_without_a_key_adds_no_series_by_methods_of_its_choice(own):
    count("HEAD", "runs/<slug:run_id>", 200)
    for method in ("GET", "PUT", "DELETE", "OPTIONS", "BREW"):
        count(method, "runs/<slug:run_id>", 401, 405)
    assert [(it.method, it.by_status) for it in http_metrics.list_requests()] == [
        ("GET", {"2xx": 1}),
        ("other", {"4xx": 10}),
    ]


def test_a_request_is_counted_by_status_and_by_its_time_without_the_waiting_of_a_long_poll():
    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/problems/x", http_metrics.ROUTE: "problems/<slug:code>"}

    def request(status: int, seconds: float, waited: float = 0.0) -> None:
        context = LogContext(waited=waited)
        record_request(environ, context, client="::1", status=status, size=0, seconds=seconds)

    for status in (200, 304, 404, 429, 500, 503, 0):
        request(status, 0.005)
    before, durations = find_counts(environ[http_metrics.ROUTE]), find_durations("page")
    assert before.by_status == {"2xx": 2, "3xx": 1, "4xx": 1, "429": 1, "5xx": 2}
    request(200, 25.02, waited=25)
    request(200, 25)
    after = find_counts(environ[http_metrics.ROUTE])
    buckets = [b - a for a, b in zip(durations.buckets, find_durations("page").buckets, strict=True)]
    assert buckets == [0, 1, *[0] * 8, 1]
    assert round(after.seconds - before.seconds, 2) == 25.02


@pytest.mark.django_db
def test_metrics_show_them(own):
    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/static/app.css"}
    for seconds in (0.001, 0.2):
        record_request(environ, LogContext(), client="::1", status=200, size=0, seconds=seconds)
    http_metrics.count_database_error()
    text = Client().get("/metrics", REMOTE_ADDR="127.0.0.1").text
    for line in (
        'reviewqueue_http_requests_total{method="GET",route="static",status="2xx"} 2.0',
        'reviewqueue_http_request_duration_seconds_bucket{area="static",le="0.01"} 1.0',
        'reviewqueue_http_request_duration_seconds_bucket{area="static",le="0.25"} 2.0',
        'reviewqueue_http_request_duration_seconds_bucket{area="static",le="+Inf"} 2.0',
        'reviewqueue_http_request_duration_seconds_count{area="static"} 2.0',
        "reviewqueue_database_errors_total 1.0",
        "reviewqueue_database_up 1.0",
    ):
        assert f"\n{line}\n" in text
    assert "reviewqueue_http_request_duration_seconds_sum" in text
    assert 'reviewqueue_http_request_seconds_total{method="GET",route="static"} 0.20' in text
