"""A receiver of webhooks on this machine that answers as the test sets it, and records what it got."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from standardwebhooks import Webhook

LARGE = b"x" * 10_000_000


@dataclass(frozen=True)
class Got:
    path: str
    headers: dict[str, str]
    body: bytes
    at: float

    def verified_by(self, secret: str):
        """Return the message if the public verifier of Standard Webhooks takes it; it raises otherwise."""
        return Webhook(secret).verify(self.body, self.headers)


class Receiving(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.got.append(Got(self.path, dict(self.headers), body, time.monotonic()))
        answers = self.server.answers
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        with contextlib.suppress(OSError):
            getattr(self, f"answer_{answer}")() if isinstance(answer, str) else self.answer(answer)
        self.close_connection = True

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def answer_broken(self) -> None:
        self.answer(500, b"<b>secret\x00\x1b[31m of the receiver</b>")

    def answer_busy(self) -> None:
        self.answer(429, Retry_After="120")

    def answer_busy_for_ever(self) -> None:
        self.answer(503, Retry_After="999999999")

    def answer_elsewhere(self) -> None:
        self.answer(302, Location="/other")

    def answer_silent(self) -> None:
        self.server.stopped.wait(self.server.seconds_of_silence)

    def answer_reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    def answer_large(self) -> None:
        self.answer(200, LARGE)

    def answer_large_failure(self) -> None:
        self.answer(500, LARGE)

    def answer_dripping_head(self) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        self._drip()

    def answer_dripping_body(self) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        self._drip()

    def _drip(self) -> None:
        while not self.server.stopped.is_set():
            self.wfile.write(b"x")
            self.wfile.flush()
            time.sleep(0.02)

    def log_message(self, *_: object) -> None:
        pass


class Receiver(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Receiving)
        self.got: list[Got] = []
        self.answers: list[int | str] = [200]
        self.stopped = threading.Event()
        self.seconds_of_silence = 20.0
        self.url = f"http://127.0.0.1:{self.server_address[1]}/hooks"

    def will(self, *answers: int | str) -> None:
        """Say how the next calls are answered; the last way stays."""
        self.answers = list(answers)

    def handle_error(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def receiver() -> Iterator[Receiver]:
    server = Receiver()
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.stopped.set()
        server.shutdown()
        server.server_close()
        thread.join()
