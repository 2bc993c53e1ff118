"""Files through the web server that we run: in one piece and in chunks, cut off, refused, and never whole in memory."""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import os
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from tests.running_server import RunningServer, running_server

MIB = 1024 * 1024
PIECE = os.urandom(64 * 1024)
LARGE = 32 * MIB // len(PIECE)


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, django_db_setup: None, django_db_blocker
) -> Iterator[RunningServer]:
    with django_db_blocker.unblock(), running_server(tmp_path_factory.mktemp("server")) as running:
        yield running


def pieces(number: int) -> Iterator[bytes]:
    for place in range(number):
        yield place.to_bytes(4, "big") + PIECE[4:]


def digest_of(number: int) -> bytes:
    known = hashlib.sha256()
    for piece in pieces(number):
        known.update(piece)
    return known.digest()


def a_run(server: RunningServer, key: str) -> tuple[str, str]:
    run = server.call("POST", "runs", {"key": key, "title": "A file"}, key=server.key)
    return run["id"], run["lease"]["token"]


def headers_for(server: RunningServer, lease: str, number: int) -> dict[str, str]:
    stated = base64.b64encode(digest_of(number)).decode()
    kind = {"Content-Type": "application/octet-stream", "Content-Digest": f"sha-256=:{stated}:"}
    return {"Authorization": f"Bearer {server.key}", "Run-Lease": lease, **kind}


def send(server: RunningServer, run: str, lease: str, number: int, *, chunked: bool, at: int = 1) -> tuple[int, dict]:
    named = headers_for(server, lease, number)
    if not chunked:
        named["Content-Length"] = str(number * len(PIECE))
    path = f"/api/v1/runs/{run}/checkpoints/{at}/file"
    with closing(http.client.HTTPConnection(urlsplit(server.base).netloc, timeout=120)) as line:
        line.request("PUT", path, body=pieces(number), headers=named, encode_chunked=chunked)
        reply = line.getresponse()
        return reply.status, json.load(reply)


def fetched(server: RunningServer, run: str) -> bytes:
    """Read a file piece by piece and return the digest of it."""
    path, key = f"/api/v1/runs/{run}/checkpoints/1/file", {"Authorization": f"Bearer {server.key}"}
    with closing(http.client.HTTPConnection(urlsplit(server.base).netloc, timeout=120)) as line:
        line.request("GET", path, headers=key)
        reply, known = line.getresponse(), hashlib.sha256()
        assert reply.status == 200
        while piece := reply.read(len(PIECE)):
            known.update(piece)
    return known.digest()


def commit(server: RunningServer, run: str, lease: str) -> dict:
    boundary = {"after": 0, "step": "a", "state": None}
    return server.call("POST", f"runs/{run}/checkpoints", boundary, key=server.key, Run_Lease=lease)


def most_memory() -> int:
    """The most memory that the server's processes have had so far, in bytes."""
    found = 0
    for process in psutil.Process().children(recursive=True):
        status = Path(f"/proc/{process.pid}/status").read_text()
        found += sum(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))
    return found


@pytest.mark.parametrize("chunked", [False, True], ids=["one piece", "chunks"])
def test_a_large_file_goes_in_and_out_without_being_whole_in_memory(server: RunningServer, chunked: bool):
    warm, lease = a_run(server, f"warm-{chunked}")
    assert send(server, warm, lease, 20, chunked=chunked)[0] == 201
    commit(server, warm, lease)
    assert fetched(server, warm) == digest_of(20)
    before = most_memory()

    run, lease = a_run(server, f"large-{chunked}")
    status, offered = send(server, run, lease, LARGE, chunked=chunked)
    assert (status, offered["size"]) == (201, 32 * MIB)
    assert commit(server, run, lease)["file"]["size"] == 32 * MIB
    assert fetched(server, run) == digest_of(LARGE)
    assert most_memory() - before < 12 * MIB


def raw(server: RunningServer, sent: bytes, *, end: bool = True) -> bytes:
    where = urlsplit(server.base)
    with socket.create_connection((where.hostname, where.port), timeout=60) as line:
        line.sendall(sent)
        if end:
            line.shutdown(socket.SHUT_WR)
        return line.recv(65_536)


def head(server: RunningServer, run: str, lease: str, **more: str) -> bytes:
    named = headers_for(server, lease, 2) | {name.replace("_", "-"): value for name, value in more.items()}
    lines = [f"PUT /api/v1/runs/{run}/checkpoints/1/file HTTP/1.1", "Host: localhost"]
    return "\r\n".join([*lines, *(f"{name}: {value}" for name, value in named.items()), "", ""]).encode()


def test_a_sender_that_breaks_off_leaves_nothing(server: RunningServer):
    run, lease = a_run(server, "cut")
    first = next(pieces(2))
    chunk = f"{len(first):x}\r\n".encode() + first + b"\r\n"
    raw(server, head(server, run, lease, Transfer_Encoding="chunked") + chunk)
    raw(server, head(server, run, lease, Content_Length=str(2 * len(PIECE))) + first)
    assert "file" not in commit(server, run, lease)


def test_a_client_that_expects_100_continue_is_refused_before_it_sends(server: RunningServer):
    run, lease = a_run(server, "asks-first")
    asking = {"Expect": "100-continue"}
    told = raw(server, head(server, run, lease, Content_Length=str(65 * MIB), **asking), end=False)
    assert told.startswith(b"HTTP/1.1 413"), told[:100]
    told = raw(server, head(server, run, lease, Content_Length=str(2 * len(PIECE)), **asking), end=False)
    assert told.startswith(b"HTTP/1.1 100"), told[:100]


def test_a_client_that_sends_too_much_gets_the_refusal(server: RunningServer):
    run, lease = a_run(server, "too-large")
    status, told = send(server, run, lease, 66 * MIB // len(PIECE), chunked=True)
    assert (status, told["code"], told["limit"]) == (413, "payload_too_large", 64 * MIB)


def test_a_stale_lease_is_refused_before_the_bytes_are_stored(server: RunningServer):
    run, lease = a_run(server, "stale")
    server.call("POST", f"runs/{run}/lease/release", {"reason": "retry"}, key=server.key, Run_Lease=lease)
    status, told = send(server, run, lease, 20, chunked=False)
    assert (status, told["code"]) == (409, "lease_lost")
