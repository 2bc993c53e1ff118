"""The receiver of effects: accepts and counts orders, and serves the specification that a run relies on.

It drops and repeats nothing, so its count is what happened. It runs in a separate process, because a kill must not
reach it.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import urllib.request
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from multiprocessing.connection import Connection

SPECIFICATION = 7


class Counting(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    arrived: Counter[str] = Counter()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        path, _, asked = self.path.partition("?")
        self.arrived[path] += 1
        if asked == "unheard":
            self.close_connection = True  # accepted without a response
            return
        self._respond({"order": f"PO-{self.arrived[path]}"})

    def do_GET(self) -> None:
        self._respond({"specification": SPECIFICATION, "arrived": self.arrived[self.path]})

    def log_message(self, *_: object) -> None:
        pass

    def _respond(self, words: dict[str, object]) -> None:
        body = json.dumps(words).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True


@dataclass(frozen=True, kw_only=True)
class Receiver:
    address: str

    def order(self, key: str, *, heard: bool = True) -> str:
        """Place an order and return the response. Unless ``heard``, the connection closes without a response."""
        address = f"{self.address}/orders/{key}{'' if heard else '?unheard'}"
        request = urllib.request.Request(address, data=b"{}", method="POST")  # noqa: S310  our own
        with urllib.request.urlopen(request, timeout=20) as reply:  # noqa: S310
            return str(json.load(reply)["order"])

    def arrived(self, key: str) -> int:
        """Return how often this order arrived."""
        with urllib.request.urlopen(f"{self.address}/orders/{key}", timeout=20) as reply:  # noqa: S310
            return int(json.load(reply)["arrived"])


@contextlib.contextmanager
def a_receiver() -> Iterator[Receiver]:
    fork = multiprocessing.get_context("fork")
    ours, theirs = fork.Pipe()
    process = fork.Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    try:
        yield Receiver(address=f"http://127.0.0.1:{ours.recv()}")
    finally:
        process.kill()
        process.join()


def _serve(pipe: Connection) -> None:
    server = HTTPServer(("127.0.0.1", 0), Counting)
    pipe.send(server.server_address[1])
    server.serve_forever()
