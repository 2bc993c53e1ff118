"""Rate limits that all processes count together in Valkey or Redis, and what happens when it does not answer."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from reviewqueue.operations.doctor import configuration
from reviewqueue.serving import shared_buckets
from reviewqueue.serving.rate_limits import RateLimit
from tests import own_processes
from tests.deploy.cache_server import started_cache


@pytest.fixture(autouse=True)
def no_server_of_an_earlier_test() -> Iterator[None]:
    yield
    shared_buckets._server.cache_clear()


def two_processes(per_minute: int) -> tuple[RateLimit, RateLimit]:
    return RateLimit(name="calls", per_minute=per_minute), RateLimit(name="calls", per_minute=per_minute)


def test_processes_share_a_limit_that_fills_evenly(tmp_path: Path, settings):
    with started_cache(tmp_path) as (settings.CACHE_URL, _):
        first, second = two_processes(per_minute=4)
        assert [limit.take("a") for limit in (first, second, first, second)] == [0] * 4
        assert first.take("a") in (14, 15)
        assert second.take("b") == 0
        assert first.take_more("b", 9) == 0, "a full bucket allows a batch above the limit"
        assert second.take("b") in (104, 105), "and later requests wait for what it owes"
        server = shared_buckets._server(settings.CACHE_URL)
        stored = server.client
        assert re.fullmatch("reviewqueue:limit:[0-9a-f]{8}:", server.prefix)
        assert sorted(stored.keys()) == [f"{server.prefix}calls:{name}".encode() for name in "ab"]
        assert all(0 < stored.ttl(name) <= 200 for name in sorted(stored.keys()))


def test_two_installations_share_a_server_and_no_limit(tmp_path: Path, settings):
    with started_cache(tmp_path) as (settings.CACHE_URL, _):
        [limit, _] = two_processes(per_minute=1)
        assert limit.take("a") == 0
        assert limit.take("a") > 0
        settings.SECRET_KEY = "of another installation, " * 3
        shared_buckets._server.cache_clear()
        assert limit.take("a") == 0


def test_without_its_server_each_process_counts_alone_and_the_doctor_reports_it(
    tmp_path: Path, settings, caplog: pytest.LogCaptureFixture
):
    with started_cache(tmp_path) as (settings.CACHE_URL, process):
        first, second = two_processes(per_minute=3)
        assert [first.take("a") for _ in range(3)] == [0] * 3
        assert second.take("a") > 0
        process.kill()
        process.wait()
        for limit in (first, second):
            assert [limit.take("a") for _ in range(3)] == [0] * 3
            assert limit.take("a") > 0, "the limit stays closed"
    assert len(caplog.records) == 1, "it is tried again after five seconds, not at each request"
    assert "each process counts its limits alone" in caplog.text
    assert shared_buckets.find_fault()


def test_a_server_that_does_not_answer_delays_one_request_only(settings):
    with socket.create_server(("127.0.0.1", own_processes.free_port())) as silent:
        settings.CACHE_URL = f"redis://127.0.0.1:{silent.getsockname()[1]}/0"
        limit = RateLimit(name="calls", per_minute=3)
        assert [limit.take("a") == 0 for _ in range(4)] == [True, True, True, False]
        assert shared_buckets._server(settings.CACHE_URL).left_alone_until > 0


@pytest.mark.django_db
def test_the_doctor_names_a_cache_that_does_not_answer(settings):
    settings.CACHE_URL = f"redis://127.0.0.1:{own_processes.free_port()}/0"
    assert any("CACHE_URL does not answer" in finding.message for finding in configuration.unsafe_settings())


def test_no_cache_is_asked_without_its_setting(settings):
    assert settings.CACHE_URL == ""
    assert shared_buckets.take("calls:a", per_minute=1, count=1, needed=1) is None
