"""The receiver: performs effects, counts them, and injects twelve kinds of faults while it is stormy.

A separate process: `python -m tests.nemesis.receiver PORT SEED`. `POST /do/KEY` is an effect, `POST /hooks` a webhook;
the product reads `GET /done/KEY` and `GET /specification`. `GET /all` returns the truth; `POST /calm` and `POST /storm`
switch the faults. Those three never fail.
"""

from __future__ import annotations

import contextlib
import json
import random
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

SPECIFICATION = 7
PATIENCE = 2.0  # seconds, of a client
SHARE_OF_FAULTS = 0.35

#: Before it does anything, and after it has done it.
BEFORE = ("500 before", "429", "hangs up before", "resets before", "redirects")
AFTER = ("500 after", "too late", "hangs up after", "slow", "huge reply", "wrong content", "half a reply")
FAULTS = BEFORE + AFTER


class World:
    """What happened: each effect with its times, each message with its attempts, and the injected faults."""

    def __init__(self, seed: int) -> None:
        self.lock = threading.Lock()
        self.chance = random.Random(seed)
        self.stormy = False
        self.done: dict[str, list[float]] = {}
        self.messages: dict[str, int] = {}
        self.faults: dict[str, int] = dict.fromkeys(FAULTS, 0)

    def draw(self) -> str:
        with self.lock:
            if not self.stormy or self.chance.random() > SHARE_OF_FAULTS:
                return ""
            fault = self.chance.choice(FAULTS)
            self.faults[fault] += 1
            return fault

    def summary(self) -> dict[str, Any]:
        with self.lock:
            return {"done": dict(self.done), "messages": dict(self.messages), "faults": dict(self.faults)}


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    world: World

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path in ("/storm", "/calm"):
            self.world.stormy = self.path == "/storm"
            self._respond(200, {})
        else:
            self._answer(self._do)

    def do_GET(self) -> None:
        if self.path == "/all":
            self._respond(200, self.world.summary())
        else:
            self._answer(self._look)

    def log_message(self, *_: object) -> None:
        pass

    def _do(self) -> dict[str, Any]:
        with self.world.lock:
            if self.path == "/hooks":
                message = self.headers["webhook-id"]
                self.world.messages[message] = self.world.messages.get(message, 0) + 1
                return {}
            key = unquote(self.path.removeprefix("/do/"))
            times = self.world.done.setdefault(key, [])
            times.append(time.time())
            return {"number": len(times)}

    def _look(self) -> dict[str, Any]:
        if self.path == "/specification":
            return {"specification": SPECIFICATION}
        with self.world.lock:
            return {"done": bool(self.world.done.get(unquote(self.path.removeprefix("/done/"))))}

    def _answer(self, act: Callable[[], dict[str, Any]]) -> None:
        fault = self.world.draw()
        if fault in BEFORE:
            self._refuse(fault)
            return
        reply = act()
        if not fault:
            self._respond(200, reply)
        else:
            self._spoil(fault, reply)

    def _refuse(self, fault: str) -> None:
        if fault == "500 before":
            self._respond(500, {})
        elif fault == "429":
            self._respond(429, {}, {"Retry-After": "1"})
        elif fault == "redirects":
            self._respond(302, {}, {"Location": "/elsewhere"})
        else:
            self._hang_up(reset=fault == "resets before")

    def _spoil(self, fault: str, reply: dict[str, Any]) -> None:
        if fault == "500 after":
            self._respond(500, {})
        elif fault == "too late":
            time.sleep(PATIENCE * 2)
            self._respond(200, reply)
        elif fault == "slow":
            time.sleep(PATIENCE / 3)
            self._respond(200, reply)
        elif fault == "huge reply":
            self._respond(200, {"number": "9" * 3_000_000})
        elif fault == "wrong content":
            self._send(200, b"<html>Welcome!</html>", {"Content-Type": "text/html"})
        elif fault == "half a reply":
            self._send(200, b'{"num', {"Content-Length": "400"})
            self._hang_up()
        else:
            self._hang_up()

    def _hang_up(self, *, reset: bool = False) -> None:
        self.close_connection = True
        if reset:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR) if not reset else self.connection.close()

    def _respond(self, status: int, words: dict[str, Any], headers: dict[str, str] | None = None) -> None:
        self._send(status, json.dumps(words).encode(), {"Content-Type": "application/json"} | (headers or {}))

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):  # the client may have disconnected
            self.send_response(status)
            for name, value in ({"Content-Length": str(len(body)), "Connection": "close"} | headers).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)


def serve(port: int, seed: int) -> None:
    Receiver.world = World(seed)
    server = ThreadingHTTPServer(("127.0.0.1", port), Receiver)
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  a disconnected client is no error
    server.serve_forever()


if __name__ == "__main__":
    serve(int(sys.argv[1]), int(sys.argv[2]))
