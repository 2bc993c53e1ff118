"""A server that answers well at one path and badly at the others, each in its own way. Counts what it was asked."""

from __future__ import annotations

import contextlib
import gzip
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BOMB = gzip.compress(b'"' + b"x" * 50_000_000 + b'"')


class Hostile(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.server.asked.append((self.path, dict(self.headers)))
        fault = self.path.partition("?")[0].strip("/").replace("-", "_")
        with contextlib.suppress(OSError):
            getattr(self, f"answer_{fault}")()
        self.close_connection = True

    def answer(self, body: bytes, *, status: int = 200, media: str = "application/json", **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", media)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def answer_good(self) -> None:
        self.answer(b'{"spec": {"version": 7}, "price": 184000.00, "nothing": null}')

    def answer_problem_json(self) -> None:
        self.answer(b"7", media="application/vnd.erp+json; charset=utf-8")

    def answer_gone(self) -> None:
        self.answer(b'{"spec": {"version": 7}}', status=404)

    def answer_gone_page(self) -> None:
        self.answer(b"<h1>Not found</h1>", status=404, media="text/html")

    def answer_broken(self) -> None:
        self.answer(b'{"spec": {"version": 7}}', status=500)

    def answer_made(self) -> None:
        self.answer(b'{"spec": {"version": 7}}', status=201)

    def answer_elsewhere(self) -> None:
        self.answer(b"", status=302, Location="/good")

    def answer_page(self) -> None:
        self.answer(b"7", media="text/html")

    def answer_text(self) -> None:
        self.answer(b"specification 7")

    def answer_nan(self) -> None:
        self.answer(b'{"spec": {"version": NaN}}')

    def answer_doubled(self) -> None:
        self.answer(b'{"spec": {"version": 7}, "spec": {"version": 8}}')

    def answer_deep(self) -> None:
        self.answer(b"[" * 20_000 + b"]" * 20_000)

    def answer_empty(self) -> None:
        self.answer(b"")

    def answer_large(self) -> None:
        self.answer(b'"' + b"x" * 10_000_000 + b'"')

    def answer_endless(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        while True:
            self.wfile.write(b"1" * 4096)

    def answer_bomb(self) -> None:
        self.answer(BOMB, Content_Encoding="gzip")

    def answer_silent(self) -> None:
        self.server.stopped.wait(20)

    def answer_drip(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self._drip(b"1")

    def answer_drip_headers(self) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        self._drip(b"x")

    def _drip(self, piece: bytes) -> None:
        while not self.server.stopped.is_set():
            self.wfile.write(piece)
            self.wfile.flush()
            time.sleep(0.05)

    def answer_many_headers(self) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\n" + b"X-Much: 1\r\n" * 100_000 + b"\r\n")

    def answer_cut(self) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")

    def answer_garbage(self) -> None:
        self.wfile.write(b"\x16\x03\x01\x00 not HTTP\r\n\r\n")

    def answer_nothing(self) -> None:
        pass

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Hostile)
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.stopped = threading.Event()
        self.address = f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def hostile_server() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.stopped.set()
        server.shutdown()
        server.server_close()
        thread.join()
