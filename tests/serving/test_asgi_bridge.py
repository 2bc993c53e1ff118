"""The WSGI application behind an ASGI server: the same environ, bounded bodies, and no waiting for slow clients."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from reviewqueue.api.problems import render_transport_error
from reviewqueue.serving import asgi_bridge
from reviewqueue.serving.asgi_bridge import BoundedApplication, holders_of
from reviewqueue.serving.http_metrics import ROUTE
from reviewqueue.serving.request_bodies import BodyLimits
from reviewqueue.serving.thread_shares import give_back_while_waiting
from tests.serving.test_request_bodies import piece, sender

LIMITS = BodyLimits(seconds=30, rate=1024)
IMPATIENT = BodyLimits(seconds=0.2, rate=1e9, grace=0.2)
#: Leaves a busy machine the time to do something else before a body is too slow.
LESS_IMPATIENT = BodyLimits(seconds=2, rate=1e9, grace=2)

#: Seconds after which a test fails that would wait for ever. The planted faults that make it wait shorten them.
PATIENCE = 20


class Result(list[bytes]):
    """A response that notes its end."""

    def __init__(self, *pieces: bytes, streaming: bool = False) -> None:
        super().__init__(pieces)
        self.streaming, self.is_closed = streaming, False

    def close(self) -> None:
        self.is_closed = True


def application(wsgi: Callable[..., Iterable[bytes]], **members: Any) -> BoundedApplication:
    given = {
        "threads": 4,
        "long_polls": 4,
        "limits": LIMITS,
        "whole_body": 1000,
        "render_error": render_transport_error,
    }
    return BoundedApplication(wsgi=wsgi, **(given | members))


def a_scope(path: str = "/", method: str = "GET", client: str = "192.0.2.1", **headers: str) -> dict[str, Any]:
    named = [(name.replace("_", "-").lower().encode(), value.encode("latin-1")) for name, value in headers.items()]
    raw, _, query = path.partition("?")
    return {
        "type": "http",
        "http_version": "1.1",
        "scheme": "http",
        "method": method,
        "path": raw,
        "raw_path": raw.encode(),
        "query_string": query.encode(),
        "headers": named,
        "client": (client, 5),
        "server": ("127.0.0.1", 8000),
    }


async def call(app: BoundedApplication, scope: dict[str, Any], *messages: Any) -> tuple[int, dict[str, str], bytes]:
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app(scope, sender(*(messages or [piece(b"", more=False)])), send)
    headers = {name.decode().lower(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], headers, b"".join(it.get("body", b"") for it in sent[1:])


def one(app: BoundedApplication, scope: dict[str, Any], *messages: Any) -> tuple[int, dict[str, str], bytes]:
    return asyncio.run(asyncio.wait_for(call(app, scope, *messages), 20))


async def until(holds: Callable[[], bool]) -> None:
    """Poll; the time limit is that of the whole test."""
    while not holds():
        await asyncio.sleep(0.01)


def echo(environ: dict[str, Any], start_response: Any) -> Result:
    told = {name: value for name, value in environ.items() if isinstance(value, str)}
    start_response("201 Created", [("X-Own", "yes")])
    return Result(json.dumps(told | {"body": environ["wsgi.input"].read().decode()}).encode())


def test_an_environ_is_what_pep_3333_says():
    scope = a_scope("/a%20b/%C3%A9%FF?q=%20", "POST", Content_Type="text/x", Content_Length="2", Run_Lease="l")
    scope["headers"] += [(b"cookie", b"a=1"), (b"cookie", b"b=2"), (b"x_forwarded_for", b"198.51.100.1")]
    status, headers, body = one(application(echo), scope, piece(b"hi", more=False))
    told = json.loads(body)
    assert (status, headers["x-own"]) == (201, "yes")
    assert told["PATH_INFO"].encode("latin-1") == b"/a b/\xc3\xa9\xff"
    assert (told["QUERY_STRING"], told["REQUEST_METHOD"], told["REMOTE_ADDR"]) == ("q=%20", "POST", "192.0.2.1")
    assert (told["CONTENT_TYPE"], told["CONTENT_LENGTH"], told["HTTP_RUN_LEASE"]) == ("text/x", "2", "l")
    assert (told["HTTP_COOKIE"], told["body"]) == ("a=1; b=2", "hi")
    assert "HTTP_X_FORWARDED_FOR" not in told


def test_slow_bodies_hold_no_thread():
    """Far more slow bodies than threads: each waits for its client, and another client is answered meanwhile."""

    async def test() -> None:
        app = application(echo, limits=LESS_IMPATIENT, threads=1)
        slow = a_scope("/account/login/", "POST", Content_Length="900")
        waiting = [asyncio.ensure_future(call(app, slow, piece(b"ab"))) for _ in range(200)]
        await asyncio.sleep(0.01)
        assert (await call(app, a_scope()))[0] == 201
        assert not any(it.done() for it in waiting)
        assert {(await it)[0] for it in waiting} == {408}
        assert app.shares.in_use == 0

    asyncio.run(asyncio.wait_for(test(), PATIENCE))


def test_a_slow_body_of_the_api_is_a_problem_with_its_request_id():
    slow = a_scope("/api/v1/runs", "POST", Content_Length="900", X_Request_ID="mine-1")
    status, headers, body = one(application(echo, limits=IMPATIENT), slow, piece(b"{"))
    problem = json.loads(body)
    assert (status, headers["content-type"], headers["connection"]) == (408, "application/problem+json", "close")
    assert (problem["code"], problem["request_id"], headers["x-request-id"]) == ("request_too_slow", "mine-1", "mine-1")


def test_a_large_body_outside_of_the_api_is_refused_before_it_is_read():
    for headers in ({"Content_Length": "1001"}, {"Transfer_Encoding": "chunked"}):
        assert one(application(echo), a_scope("/account/login/", "POST", **headers), 3600.0)[0] == 413


def test_a_large_body_of_the_api_is_read_by_its_thread_without_a_share():
    held: list[int] = []

    def reads(environ: dict[str, Any], start_response: Any) -> Result:
        body = environ["wsgi.input"].read(1500)
        held.append(app.shares.in_use)
        start_response("200 OK", [])
        return Result(str(len(body)).encode())

    app = application(reads)
    scope = a_scope("/api/v1/file", "PUT", Content_Length="1500")
    assert one(app, scope, piece(b"x" * 700), 0.05, piece(b"x" * 800, more=False))[2] == b"1500"
    assert held == [0]


def test_one_key_cannot_have_every_place_for_large_bodies():
    begun: list[str] = []

    def reads(environ: dict[str, Any], start_response: Any) -> Result:
        begun.append(environ["REMOTE_ADDR"])
        environ["wsgi.input"].read()
        start_response("200 OK", [])
        return Result()

    async def test() -> None:
        app, rest = application(reads, threads=6), asyncio.Event()
        of_one = {"Content_Length": "5000", "Authorization": "Bearer rq_aaaaaaaaaaaa_x"}
        held = [
            asyncio.ensure_future(
                call(app, a_scope("/api/f", "PUT", client=f"192.0.2.{n}", **of_one), rest, piece(b"", more=False))
            )
            for n in range(app.most_streams - 1)
        ]
        await until(lambda: len(begun) == len(held))
        assert (await call(app, a_scope("/api/f", "PUT", client="192.0.2.99", **of_one)))[0] == 503
        another = of_one | {"Authorization": "Bearer rq_bbbbbbbbbbbb_x"}
        assert (await call(app, a_scope("/api/f", "PUT", client="192.0.2.98", **another)))[0] == 200
        rest.set()
        assert {(await it)[0] for it in held} == {200}
        assert not app.streams

    asyncio.run(asyncio.wait_for(test(), 20))


def test_bodies_in_memory_are_bounded_and_one_address_has_half_of_the_room(monkeypatch):
    monkeypatch.setattr(asgi_bridge, "ROOM_FOR_BODIES", 4000)
    monkeypatch.setattr(asgi_bridge, "SMALL_BODY", 100)

    async def test() -> None:
        app = application(echo, limits=LESS_IMPATIENT)
        of_one = [asyncio.ensure_future(call(app, a_scope("/", "POST", Content_Length="900"), 0.1)) for _ in range(9)]
        await until(lambda: all(it.done() for it in of_one[2:]))
        assert [it.done() for it in of_one] == [False, False] + [True] * 7
        small, other = a_scope("/", "POST", Content_Length="2"), {"client": "192.0.2.2", "Content_Length": "900"}
        assert (await call(app, small, piece(b"hi", more=False)))[0] == 201
        assert (await call(app, a_scope("/", "POST", **other), piece(b"you", more=False)))[0] == 201
        assert [(await it)[0] for it in of_one] == [408, 408] + [503] * 7
        assert not app.room

    asyncio.run(asyncio.wait_for(test(), 20))


def test_requests_that_only_wait_leave_their_threads_to_others():
    over = threading.Event()

    def long_poll(environ: dict[str, Any], start_response: Any) -> Result:
        if environ["PATH_INFO"] == "/poll":
            give_back_while_waiting()
            assert over.wait(PATIENCE)
        start_response("200 OK", [])
        return Result()

    async def test() -> None:
        app = application(long_poll, threads=2, long_polls=4)
        polls = [asyncio.ensure_future(call(app, a_scope("/poll"))) for _ in range(4)]
        await asyncio.sleep(0.1)
        assert (await call(app, a_scope("/page")))[0] == 200
        assert not any(it.done() for it in polls)
        over.set()
        assert [(await it)[0] for it in polls] == [200] * 4
        assert app.shares.in_use == 0

    asyncio.run(asyncio.wait_for(test(), PATIENCE))


def test_a_liveness_probe_is_answered_while_every_thread_is_busy():
    over = threading.Event()

    def busy(environ: dict[str, Any], start_response: Any) -> Result:
        if environ["PATH_INFO"] != "/healthz":
            assert over.wait(15)
        start_response("200 OK", [])
        return Result()

    async def test() -> None:
        app = application(busy, threads=2)
        calls = [asyncio.ensure_future(call(app, a_scope(client=f"192.0.2.{n}"))) for n in range(14)]
        await asyncio.sleep(0.05)
        assert (await call(app, a_scope("/healthz")))[0] == 200
        assert not any(it.done() for it in calls)
        over.set()
        assert {(await it)[0] for it in calls} == {200}

    asyncio.run(asyncio.wait_for(test(), 20))


def test_readiness_is_answered_in_time_while_the_database_is_away(monkeypatch):
    monkeypatch.setattr(asgi_bridge, "LONGEST_WAIT_FOR_READINESS", 0.05)
    over, checks, routes = threading.Event(), [], []
    monkeypatch.setattr(asgi_bridge, "record_request", lambda environ, *_, **__: routes.append(environ.get(ROUTE)))

    def away(environ: dict[str, Any], start_response: Any) -> Result:
        checks.append(environ["PATH_INFO"])
        assert over.wait(15)
        start_response("200 OK", [("Content-Type", "application/json")])
        return Result(b'{"ready": true}')

    async def test() -> None:
        app = application(away, threads=2)
        calls = [asyncio.ensure_future(call(app, a_scope(client=f"192.0.2.{n}"))) for n in range(14)]
        for _ in range(3):
            status, headers, body = await call(app, a_scope("/readyz"))
            assert (status, json.loads(body)["wrong"][0]["check"]) == (503, "database")
            assert headers["x-request-id"]
        assert checks.count("/readyz") == 1
        assert routes == ["readyz"] * 3
        over.set()
        assert {(await it)[0] for it in calls} == {200}
        assert (await call(app, a_scope("/readyz")))[0] == 200

    asyncio.run(asyncio.wait_for(test(), 20))


def test_a_request_that_finds_no_thread_in_time_is_busy(monkeypatch):
    monkeypatch.setattr(asgi_bridge, "LONGEST_WAIT_FOR_A_THREAD", 0.05)
    over = threading.Event()

    def busy(environ: dict[str, Any], start_response: Any) -> Result:
        assert over.wait(15)
        start_response("200 OK", [])
        return Result()

    async def test() -> None:
        app = application(busy, threads=1)
        first = asyncio.ensure_future(call(app, a_scope()))
        await asyncio.sleep(0.01)
        status, headers, _ = await call(app, a_scope("/api/v1/runs"))
        assert (status, headers["retry-after"]) == (503, "1")
        over.set()
        assert (await first)[0] == 200

    asyncio.run(asyncio.wait_for(test(), 20))


def test_a_long_response_is_sent_in_pieces_and_closed():
    result = Result(b"a" * 600_000, b"b" * 600_000, streaming=True)

    def streams(environ: dict[str, Any], start_response: Any) -> Result:
        start_response("200 OK", [("Content-Length", "1200000")])
        return result

    status, _, body = one(application(streams), a_scope())
    assert (status, len(body), result.is_closed) == (200, 1_200_000, True)


def test_a_reader_that_takes_nothing_is_left(monkeypatch):
    monkeypatch.setattr(asgi_bridge, "LONGEST_WAIT_FOR_A_READER", 0.05)
    result = Result(b"a", b"b", streaming=True)

    def streams(environ: dict[str, Any], start_response: Any) -> Result:
        start_response("200 OK", [])
        return result

    async def test() -> None:
        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.body":
                await asyncio.sleep(3600)

        app = application(streams)
        await app(a_scope(), sender(), send)
        assert (result.is_closed, app.shares.in_use) == (True, 0)

    asyncio.run(asyncio.wait_for(test(), 20))


def test_what_breaks_outside_of_django_is_logged_with_the_request_id(caplog):
    def breaks(environ: dict[str, Any], start_response: Any) -> Result:
        raise ZeroDivisionError

    status, headers, _ = one(application(breaks), a_scope(X_Request_ID="mine"))
    assert (status, headers["x-request-id"]) == (500, "mine")
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize(
    ("headers", "holder"),
    [
        ({"HTTP_AUTHORIZATION": "Bearer rq_abcdefghijkl_secret"}, "key rq_abcdefghijkl"),
        ({"HTTP_COOKIE": "csrftoken=x; sessionid=abc"}, "session abc"),
        ({}, "address 192.0.2.1"),
    ],
)
def test_a_share_is_counted_for_the_address_and_for_the_key_or_session(headers, holder):
    assert holders_of({"REMOTE_ADDR": "192.0.2.1"} | headers) == ("192.0.2.1", holder)
