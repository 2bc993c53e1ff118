"""Slow clients beside the real `manage.py web`: people and agents are answered, the slow ones get 408 or are closed."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.client
import selectors
import socket
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from tests import figures, own_processes
from tests.running_server import RunningServer, running_server

pytestmark = [pytest.mark.django_db]

#: A healthy answer takes milliseconds; with every thread held none would come before the slow ones end.
WITHIN = 20
FORM = (
    b"POST /account/login/ HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    b"Content-Length: 100000\r\n\r\n"
)
LONG_RESPONSE = "/static/drf_spectacular_sidecar/redoc/bundles/redoc.standalone.js"
BEGINNINGS = {
    "two bytes of a body": FORM + b"ab",
    "a body that drips": FORM,
    "two bytes of a call": FORM.replace(b"/account/login/", b"/api/v1/runs") + b"{ ",
    "half a header": b"POST /account/login/ HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: a",
    "nothing at all": b"",
    "a long response that is not read": f"GET {LONG_RESPONSE} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode(),
}


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, django_db_setup: None, django_db_blocker
) -> Iterator[RunningServer]:
    patch = pytest.MonkeyPatch()
    patch.setenv("REQUEST_HEADER_SECONDS", "3")
    with django_db_blocker.unblock(), running_server(tmp_path_factory.mktemp("slow")) as running:
        yield running
    patch.undo()


@contextlib.contextmanager
def slow_clients(server: RunningServer, beginning: bytes, count: int) -> Iterator[list[socket.socket]]:
    """Open so many connections that begin a request; those whose body is empty so far drip a byte a second."""
    with contextlib.ExitStack() as until_done:
        opened = []
        for _ in range(count):
            one = until_done.enter_context(socket.create_connection(("127.0.0.1", urlsplit(server.base).port)))
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            one.sendall(beginning)
            opened.append(one)
        over = threading.Event()

        def drip() -> None:
            while not over.wait(1):
                for one in opened:
                    with contextlib.suppress(OSError):
                        one.send(b"x")

        if beginning == FORM:
            dripping = threading.Thread(target=drip)
            dripping.start()
            until_done.callback(dripping.join)
            until_done.callback(over.set)
        yield opened


def ends_of(opened: list[socket.socket], *, within: float) -> Counter[str]:
    """Wait until each connection was answered or closed; returns how they ended."""
    ends: Counter[str] = Counter()
    waiting = selectors.DefaultSelector()
    for one in opened:
        waiting.register(one, selectors.EVENT_READ)
    until = time.monotonic() + within
    while waiting.get_map() and time.monotonic() < until:
        for key, _ in waiting.select(timeout=0.5):
            waiting.unregister(key.fileobj)
            try:
                said = key.fileobj.recv(65_536)  # type: ignore[union-attr]
            except OSError:
                said = b""
            ends[said[9:12].decode() or "closed"] += 1
    ends["open"] = len(waiting.get_map())
    return +ends


def slowest_answer(server: RunningServer) -> float:
    """Let a person, an agent and a probe be answered five times; returns the longest that one took, in seconds."""
    took = []
    for turn in range(5):
        for path, key in (("/account/login/", ""), ("/api/v1/agents/me", server.key), ("/healthz", "")):
            began = time.monotonic()
            asked = urllib.request.Request(server.base + path)  # noqa: S310
            if key:
                asked.add_header("Authorization", f"Bearer {key}")
            with urllib.request.urlopen(asked, timeout=WITHIN) as reply:  # noqa: S310
                assert reply.status == 200
            took.append(time.monotonic() - began)
        time.sleep(0.1 * turn)
    return max(took)


@pytest.mark.slow
@pytest.mark.proves(20)
@pytest.mark.parametrize(("count", "kind"), [(30, "two bytes of a body"), *((200, kind) for kind in BEGINNINGS)])
def test_slow_clients_block_no_other_client(server: RunningServer, kind: str, count: int):
    with slow_clients(server, BEGINNINGS[kind], count) as opened:
        took = slowest_answer(server)
        ends = ends_of(opened, within=40)
    assert took < WITHIN
    if "response" in kind:  # its beginning was sent; then it holds a connection, and nothing else, until it leaves
        assert ends == {"200": count}
    elif "body" in kind or "call" in kind:
        assert ends == {"408": count}
    else:
        assert ends == {"closed": count}
    figures.count(f"{count} clients with {kind}", f"slowest answer beside them {took:.2f} s", n=15)


@pytest.mark.slow
def test_a_large_file_at_a_decent_rate_arrives(server: RunningServer):
    """Two MiB in pieces, slower than the network and far above the minimum rate: it is streamed, digest and all."""
    run = server.call("POST", "runs", {"key": f"file-{time.time_ns()}", "title": "Files"}, key=server.key)
    content = b"0123456789abcdef" * 131_072
    digest = base64.b64encode(hashlib.sha256(content).digest()).decode()
    sending = http.client.HTTPConnection("127.0.0.1", urlsplit(server.base).port or 0, timeout=60)
    sending.putrequest("PUT", f"/api/v1/runs/{run['id']}/checkpoints/1/file")
    for name, value in {
        "Authorization": f"Bearer {server.key}",
        "Run-Lease": run["lease"]["token"],
        "Content-Type": "application/octet-stream",
        "Content-Length": str(len(content)),
        "Content-Digest": f"sha-256=:{digest}:",
    }.items():
        sending.putheader(name, value)
    sending.endheaders()
    for start in range(0, len(content), 131_072):
        sending.send(content[start : start + 131_072])
        time.sleep(0.05)
    with contextlib.closing(sending), sending.getresponse() as reply:
        assert reply.status == 201, reply.read()


@pytest.mark.slow
def test_a_large_file_that_stops_is_too_slow_and_leaves_its_place(server: RunningServer):
    run = server.call("POST", "runs", {"key": f"stops-{time.time_ns()}", "title": "Files"}, key=server.key)
    head = (
        f"PUT /api/v1/runs/{run['id']}/checkpoints/1/file HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"Authorization: Bearer {server.key}\r\nRun-Lease: {run['lease']['token']}\r\n"
        "Content-Type: application/octet-stream\r\nContent-Length: 2000000\r\n\r\n"
    ).encode()
    for _ in range(2):  # the place of the first is free for the second
        with slow_clients(server, head + b"begins", 1) as opened:
            assert ends_of(opened, within=40) == {"408": 1}


@pytest.mark.slow
def test_long_polls_beyond_the_threads_leave_pages_alone(server: RunningServer):
    """Twenty-four long polls of one key wait beside twelve threads; further ones are refused."""
    told: Counter[str] = Counter()

    def poll() -> None:
        asked = urllib.request.Request(  # noqa: S310
            f"{server.base}/api/v1/continuations/claim", method="POST", data=b'{"wait": 10}'
        )
        asked.add_header("Authorization", f"Bearer {server.key}")
        asked.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(asked, timeout=60) as reply:  # noqa: S310
            told[reply.headers["Retry-After"] or "waited"] += 1

    polls = [threading.Thread(target=poll) for _ in range(40)]
    for one in polls:
        one.start()
    own_processes.eventually(lambda: told["1"] >= 16, within=30)
    assert slowest_answer(server) < WITHIN
    for one in polls:
        one.join(60)
    assert told == {"1": 16, "waited": 24}


@pytest.mark.slow
def test_a_flood_of_guessed_keys_is_refused_and_the_good_key_is_not(server: RunningServer):
    statuses = Counter()
    for n in range(70):
        asked = urllib.request.Request(f"{server.base}/api/v1/runs")  # noqa: S310
        asked.add_header("Authorization", f"Bearer rq_{'a' * 12}_{n:043d}")
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(asked, timeout=WITHIN)  # noqa: S310
        statuses[refused.value.code] += 1
        if refused.value.code == 429:
            assert int(refused.value.headers["Retry-After"]) >= 1
        refused.value.close()
    assert statuses[401] >= 60
    assert statuses[429] >= 1
    assert server.call("GET", "agents/me", key=server.key)
