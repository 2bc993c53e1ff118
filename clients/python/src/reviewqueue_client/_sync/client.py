# Derived from `_async` by make_sync.py; change that instead.
"""The client: requests with retries, and the runs and workers that it makes."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import httpx
from reviewqueue_client import exact_json
from reviewqueue_client._sync.platform import HttpClient, HttpTransport, sleep
from reviewqueue_client._sync.run import RunHandle
from reviewqueue_client._sync.worker import Worker
from reviewqueue_client.errors import Refused, Unreachable
from reviewqueue_client.retries import RETRYABLE_STATUSES, Retries
from reviewqueue_client.traces import trace_headers
from reviewqueue_client.values import Attachment, Request

#: Media type of files.
FILE = "application/octet-stream"


class Client:
    """A connection to one server with one agent's key.

    ``server`` and ``key`` are read from `REVIEW_QUEUE` and `REVIEW_QUEUE_KEY` when left out. ``transport``: of httpx, for
    tests and proxies. ``timeout``: seconds for a request, without the time of a long poll.
    """

    def __init__(
        self,
        server: str | None = None,
        key: str | None = None,
        *,
        retries: Retries | None = None,
        timeout: float = 30.0,
        transport: HttpTransport | None = None,
    ) -> None:
        address = server or os.environ["REVIEW_QUEUE"]
        token = key or os.environ["REVIEW_QUEUE_KEY"]
        self.retries = retries or Retries()
        self._timeout = timeout
        self._http = HttpClient(
            base_url=f"{address.rstrip('/')}/api/v1/",
            headers={"Authorization": f"Bearer {token}", "User-Agent": "reviewqueue-client/0.1.0"},
            timeout=timeout,
            transport=transport,
        )

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    # --- requests -----------------------------------------------------------------------------------------------------

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        lease: str = "",
        idempotency_key: str = "",
        attempts: int = 0,
        wait: float = 0,
    ) -> Any:
        """Call any operation of the API (`path` below `/api/v1/`) and return its JSON.

        A file is ``bytes``, as body and as response.

        Sends the request again if the connection fails or the server says that it is retryable; at most ``attempts``
        times, which is the number of ``retries`` when left out. ``wait``: seconds that the server may hold the request.
        Raises ``Refused`` and ``Unreachable``.
        """
        content, _ = self.exchange(
            method, path, body, lease=lease, idempotency_key=idempotency_key, attempts=attempts, wait=wait
        )
        return content

    def exchange(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        lease: str = "",
        idempotency_key: str = "",
        attempts: int = 0,
        wait: float = 0,
    ) -> tuple[Any, Mapping[str, str]]:
        """Do the same as ``call``, and also return the headers of the response."""
        response = self._send(
            method, path, body, lease=lease, idempotency_key=idempotency_key, attempts=attempts, wait=wait
        )
        is_file = response.headers.get("Content-Type", "") == FILE
        return response.content if is_file else exact_json.loads(response.content), response.headers

    def download(self, attachment: Attachment) -> bytes:
        """Return the bytes of a file that a reviewer attached. A person chose them: treat them as untrusted input.

        Raises ``DigestMismatch`` if they are not the bytes that the answer names, ``Refused`` if they are erased or damaged.
        """
        response = self._send("GET", attachment.path)
        return attachment.verify(response.content)

    def _send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        lease: str = "",
        idempotency_key: str = "",
        attempts: int = 0,
        wait: float = 0,
    ) -> httpx.Response:
        kind = FILE if isinstance(body, bytes) else "application/json"
        headers = {"Content-Type": kind} if body is not None else {}
        headers |= {"Run-Lease": lease} if lease else {}
        headers |= {"Idempotency-Key": idempotency_key} if idempotency_key else {}
        headers |= trace_headers()
        content = body if body is None or isinstance(body, bytes) else exact_json.dumps(body)
        timeout = self._timeout + wait
        last = attempts or self.retries.attempts
        attempt = 0
        while True:
            attempt += 1
            retry_after = None
            problem: Refused | Unreachable
            try:
                response = self._http.request(method, path, content=content, headers=headers, timeout=timeout)
            except httpx.TransportError as error:
                problem = Unreachable(f"{method} {path}: {type(error).__name__}: {error}")
            else:
                if response.is_success:
                    return response
                problem = _problem_of(response)
                retry_after = response.headers.get("Retry-After")
                if isinstance(problem, Refused) and not problem.retryable:
                    raise problem
                if isinstance(problem, Unreachable) and response.status_code not in RETRYABLE_STATUSES:
                    raise problem
            if attempt >= last:
                raise problem
            sleep(self.retries.delay(attempt, retry_after))

    # --- runs and workers ---------------------------------------------------------------------------------------------

    def run(
        self,
        key: str,
        *,
        title: str = "",
        code_version: str = "",
        initiator: str | None = None,
        parent: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> RunHandle:
        """Start the run with this key, or find the run that an earlier call with this key started.

        No lease is taken: ``RunHandle.execute`` or a worker claims the run.
        """
        body: dict[str, Any] = {"key": key, "title": title or key, "lease_seconds": 0}
        body |= {"code_version": code_version} if code_version else {}
        body |= {"initiator": initiator} if initiator else {}
        body |= {"parent": parent} if parent else {}
        body |= {"metadata": dict(metadata)} if metadata else {}
        started = self.call("POST", "runs", body)
        return RunHandle(self, started, code_version=code_version)

    def worker(
        self, *, code_version: str = "", accepts: tuple[str, ...] = (), lease_seconds: int = 60, wait: int = 10
    ) -> Worker:
        """Return a worker that claims runs of this agent and dispatches them by the step of their checkpoint.

        ``wait``: seconds of a long poll, and so the longest time until an idle worker ends after SIGTERM; at most 30.
        """
        return Worker(self, code_version=code_version, accepts=accepts, lease_seconds=lease_seconds, wait=wait)

    def ask(self, request: Request, *, state: Any = None) -> dict[str, Any]:
        """Start a run with one request and no worker (`POST asks`). Returns its interrupt, its run and the page's URL."""
        body = dict(request) | ({} if state is None else {"state": state})
        asked: dict[str, Any] = self.call("POST", "asks", body)
        return asked

    def ask_batch(self, asks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Start a run for each ask (`POST asks/batch`, at most 100), which is a ``Request`` with an optional `state`.

        Returns a result for each, in their order: its `status`, and `ask` or `problem`. A refused ask stops no other.
        """
        sent: dict[str, Any] = self.call("POST", "asks/batch", {"asks": [dict(ask) for ask in asks]})
        results: list[dict[str, Any]] = sent["asks"]
        return results

    def signal(self, correlation: str, *, type: str, id: str = "", body: Any = None) -> dict[str, Any]:  # noqa: A002
        """Send an event. ``id`` is the sender's id of it: the same id is one event. Left out, it is a new one."""
        sent = {"id": id or str(uuid.uuid4()), "correlation": correlation, "type": type, "body": body}
        signal: dict[str, Any] = self.call("POST", "signals", sent)
        return signal


def _problem_of(response: httpx.Response) -> Refused | Unreachable:
    if response.headers.get("Content-Type", "").startswith("application/problem+json"):
        return Refused(response.status_code, exact_json.loads(response.content))
    text = f"{response.request.method} {response.request.url}: HTTP status {response.status_code}"
    return Unreachable(text, response.status_code)
