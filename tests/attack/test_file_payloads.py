"""Hostile bodies and headers for the one route that takes bytes: refused with a code, and nothing is left behind."""

from __future__ import annotations

import base64
import gzip
import hashlib
import os
import threading
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from reviewqueue.api import binary_bodies
from runs.models import CheckpointFile
from tests.api.calls import Caller, Reply, a_started_run, a_worker
from tests.attack.counts import rows_of_everything

pytestmark = pytest.mark.django_db

LIMIT = 4096
KIND = {"Content_Type": "application/octet-stream"}


@pytest.fixture(autouse=True)
def a_small_limit(settings):
    settings.CHECKPOINT_FILE_BYTES = LIMIT


def stated(sent: bytes) -> str:
    return f"sha-256=:{base64.b64encode(hashlib.sha256(sent).digest()).decode()}:"


def a_place() -> tuple[Caller, str, str]:
    worker = a_worker()
    run, lease = a_started_run(worker)
    return worker, f"runs/{run}/checkpoints/1/file", lease


def files_on_disk() -> int:
    return sum(len(names) for _, _, names in os.walk(Path(settings.MEDIA_ROOT)))


def refused(reply: Reply, status: int, code: str) -> Reply:
    assert (reply.status, reply.body["code"]) == (status, code), reply.body
    assert reply.headers["Content-Type"] == "application/problem+json"
    return reply


def in_chunks(worker: Caller, path: str, sent: Any, *, terminated: bool = True, **headers: str) -> Reply:
    """Send a body without a length, as a server that ends chunked bodies itself hands it on."""
    named = {f"HTTP_{name.upper()}": value for name, value in headers.items()}
    reply = worker.client.generic(
        "PUT",
        f"/api/v1/{path}",
        content_type="application/octet-stream",
        **{"wsgi.input": sent, "wsgi.input_terminated": terminated, "HTTP_TRANSFER_ENCODING": "chunked"},
        HTTP_AUTHORIZATION=f"Bearer {worker.key}",
        **named,
    )
    return Reply(reply.status_code, reply.json(), reply.headers)


@pytest.mark.parametrize("size", [1, LIMIT - 1, LIMIT])
def test_up_to_the_limit_is_taken(size):
    worker, path, lease = a_place()
    sent = os.urandom(size)
    assert worker.call("PUT", path, raw=sent, Run_Lease=lease, **KIND).status == 201
    assert CheckpointFile.objects.get().size == size


@pytest.mark.parametrize("size", [LIMIT + 1, 10 * LIMIT, 3 * 1024 * 1024])
def test_past_the_limit_is_413_and_names_it(size):
    worker, path, lease = a_place()
    before = rows_of_everything()
    reply = refused(worker.call("PUT", path, raw=b"x" * size, Run_Lease=lease, **KIND), 413, "payload_too_large")
    assert reply["limit"] == LIMIT
    reply = refused(
        in_chunks(worker, path, BytesIO(b"x" * size), Run_Lease=lease, Content_Digest=stated(b"")),
        413,
        "payload_too_large",
    )
    assert reply["limit"] == LIMIT
    assert (rows_of_everything(), files_on_disk()) == (before, 0)


def test_an_endless_body_in_chunks_is_not_read_to_its_end():
    class Endless(BytesIO):
        read_so_far = 0

        def read(self, size: int | None = -1) -> bytes:
            self.read_so_far += size
            return b"x" * size

    worker, path, lease = a_place()
    endless = Endless()
    refused(in_chunks(worker, path, endless, Run_Lease=lease, Content_Digest=stated(b"")), 413, "payload_too_large")
    assert endless.read_so_far <= 33 * 1024 * 1024
    spared = Endless()
    headers = {"Run_Lease": lease, "Content_Digest": stated(b""), "Expect": "100-continue"}
    refused(in_chunks(worker, path, spared, **headers), 413, "payload_too_large")
    assert spared.read_so_far <= LIMIT + 2 * binary_bodies.PIECE


def test_refused_bodies_are_read_within_the_limit_or_not_at_all(monkeypatch):
    """Or as many slow senders as there are threads, each refused, would keep this process from everybody."""
    worker, path, lease = a_place()
    monkeypatch.setattr(binary_bodies, "_slots", threading.BoundedSemaphore(1))
    headers = {"Run_Lease": f"{lease}x", "Content_Digest": stated(b"x")}
    heard, unheard = BytesIO(b"x" * LIMIT), BytesIO(b"x" * LIMIT)
    refused(in_chunks(worker, path, heard, **headers), 422, "payload_invalid")
    with binary_bodies.acquire_slot():
        refused(in_chunks(worker, path, unheard, **headers), 422, "payload_invalid")
    assert (heard.tell(), unheard.tell()) == (LIMIT, 0)


def test_nothing_at_all_is_no_file():
    worker, path, lease = a_place()
    for reply in (
        worker.call("PUT", path, raw=b"", Run_Lease=lease, Content_Length="0", **KIND),
        in_chunks(worker, path, BytesIO(b""), Run_Lease=lease, Content_Digest=stated(b"")),
    ):
        refused(reply, 422, "payload_invalid")
    assert not CheckpointFile.objects.exists()


def test_chunks_prove_by_their_digest_that_they_are_whole():
    worker, path, lease = a_place()
    sent = b"bytes" * 100
    refused(in_chunks(worker, path, BytesIO(sent), Run_Lease=lease), 411, "payload_invalid")
    refused(
        in_chunks(worker, path, BytesIO(sent), Run_Lease=lease, Content_Digest=stated(sent), terminated=False),
        411,
        "payload_invalid",
    )
    cut = in_chunks(worker, path, BytesIO(sent[:-1]), Run_Lease=lease, Content_Digest=stated(sent))
    refused(cut, 422, "digest_mismatch")
    assert (CheckpointFile.objects.count(), files_on_disk()) == (0, 0)
    whole = in_chunks(worker, path, BytesIO(sent), Run_Lease=lease, Content_Digest=stated(sent), Content_Length="3")
    assert (whole.status, whole["size"]) == (201, len(sent))


def test_a_body_that_breaks_off_is_none():
    worker, path, lease = a_place()
    whole = {"HTTP_RUN_LEASE": lease, "CONTENT_LENGTH": "8", "wsgi.input": BytesIO(b"half")}
    key, kind = f"Bearer {worker.key}", "application/octet-stream"
    reply = worker.client.generic("PUT", f"/api/v1/{path}", content_type=kind, HTTP_AUTHORIZATION=key, **whole)
    refused(Reply(reply.status_code, reply.json(), reply.headers), 422, "payload_invalid")
    assert (CheckpointFile.objects.count(), files_on_disk()) == (0, 0)


def test_bytes_that_do_not_match_their_digest_are_not_stored():
    worker, path, lease = a_place()
    before = rows_of_everything()
    reply = worker.call("PUT", path, raw=b"bytes", Run_Lease=lease, Content_Digest=stated(b"other"), **KIND)
    refused(reply, 422, "digest_mismatch")
    assert reply["digest"] == f"sha256:{hashlib.sha256(b'bytes').hexdigest()}"
    assert (rows_of_everything(), files_on_disk()) == (before, 0)


GOOD = stated(b"bytes")
BAD_DIGESTS = [
    "x",
    "sha-256",
    "sha-256=",
    "sha-256=::",
    "sha-256=:x:",
    GOOD[:-1],
    GOOD + ",",
    GOOD + ";q=1",
    f"{GOOD}, {GOOD}",
]
BAD_DIGESTS += [
    "sha-512=:AAAA:",
    "sha-256=:AAAA:",
    GOOD.replace("sha-256", "SHA-256"),
    GOOD.replace("=:", "=", 1),
    "é",
    GOOD * 500,
]
BAD_DIGESTS += ["sha-256=:" + "A" * 42 + "!=:", 'sha-256="abc"', "md5=:AAAAAAAAAAAAAAAAAAAAAA==:"]


@pytest.mark.parametrize("header", BAD_DIGESTS, ids=range(len(BAD_DIGESTS)))
def test_a_digest_that_is_none_is_refused(header):
    worker, path, lease = a_place()
    reply = worker.call("PUT", path, raw=b"bytes", Run_Lease=lease, Content_Digest=header, **KIND)
    refused(reply, 422, "payload_invalid")
    assert reply["errors"][0]["pointer"] == ""
    assert not CheckpointFile.objects.exists()


@pytest.mark.parametrize("header", [GOOD, f" {GOOD} ", f"sha-512=:AAAA:, {GOOD}", f"{GOOD},unknown=:AAAA:"])
def test_a_digest_beside_others_counts(header):
    worker, path, lease = a_place()
    assert worker.call("PUT", path, raw=b"bytes", Run_Lease=lease, Content_Digest=header, **KIND).status == 201


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "gzip, identity", "x"])
def test_an_encoded_body_is_refused(encoding):
    worker, path, lease = a_place()
    sent = gzip.compress(b"bytes")
    refused(
        worker.call("PUT", path, raw=sent, Run_Lease=lease, Content_Encoding=encoding, **KIND), 415, "payload_invalid"
    )
    assert not CheckpointFile.objects.exists()


@pytest.mark.parametrize(
    "kind",
    ["application/json", "text/plain", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded", "x"],
)
def test_a_body_of_another_kind_is_refused(kind):
    worker, path, lease = a_place()
    refused(worker.call("PUT", path, raw=b"a=1", Run_Lease=lease, Content_Type=kind), 415, "payload_invalid")
    assert not CheckpointFile.objects.exists()


@pytest.mark.parametrize("length", ["x", "-1", "99999999999999999999", "1.5", "٣"])
def test_a_length_that_is_none_is_refused(length):
    worker, path, lease = a_place()
    refused(
        worker.call("PUT", path, raw=b"bytes", Run_Lease=lease, Content_Length=length, **KIND), 400, "payload_invalid"
    )


@pytest.mark.parametrize("lease", ["", "x", "lse_1_" + "0" * 64, "lse_99999999999_" + "0" * 64, "é", "x" * 5000])
def test_a_lease_that_is_none_is_refused(lease):
    worker, path, _ = a_place()
    refused(worker.call("PUT", path, raw=b"bytes", Run_Lease=lease, **KIND), 422, "payload_invalid")


def test_a_lease_of_another_run_and_one_that_is_over_are_refused():
    worker, path, lease = a_place()
    _, other, _ = a_place()
    refused(worker.call("PUT", other, raw=b"bytes", Run_Lease=lease, **KIND), 422, "payload_invalid")
    run = path.split("/")[1]
    worker.post(f"runs/{run}/lease/release", {"reason": "retry"}, Run_Lease=lease)
    refused(worker.call("PUT", path, raw=b"bytes", Run_Lease=lease, **KIND), 409, "lease_lost")
    assert not CheckpointFile.objects.exists()


@pytest.mark.parametrize("number", ["00", "-1", "1.0", "é", "%00", "9999999999", "1/../1", "01"])
def test_a_number_that_is_none_is_not_found(number):
    worker, path, lease = a_place()
    hostile = path.replace("/1/file", f"/{number}/file")
    for method in ("PUT", "GET"):
        refused(worker.call(method, hostile, raw=b"bytes", Run_Lease=lease, **KIND), 404, "not_found")


def test_a_refused_body_is_read_before_the_response():
    worker, path, lease = a_place()
    body = BytesIO(b"x" * 100_000)
    refused(
        in_chunks(worker, path.replace("/1/", "/7/"), body, Run_Lease=lease, Content_Digest=stated(b"")),
        409,
        "stale_version",
    )
    assert body.tell() == 100_000


def test_only_so_many_are_on_their_way_at_once(monkeypatch):
    monkeypatch.setattr(binary_bodies, "_slots", threading.BoundedSemaphore(1))
    worker, path, lease = a_place()
    with binary_bodies.acquire_slot():
        reply = worker.call("PUT", path, raw=b"bytes", Run_Lease=lease, **KIND)
        refused(reply, 503, "busy")
        assert (reply["retryable"], reply.headers["Retry-After"]) == (True, "1")
    for _ in range(3):  # refusals give their place back
        refused(
            worker.call("PUT", path, raw=b"b", Run_Lease=lease, Content_Digest=GOOD, **KIND), 422, "digest_mismatch"
        )
    assert worker.call("PUT", path, raw=b"bytes", Run_Lease=lease, **KIND).status == 201
