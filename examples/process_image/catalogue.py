"""A supplier's catalogue behind a socket, whose greeting is its edition. A thread of the example serves it."""

import json
import os
import socket
import socketserver
import sys
import threading
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from supplier import issue_purchase_order

PRICE = os.environ.get("PRICE", "184000.00")


class Connection:
    """An open connection. It has a socket, so it cannot be part of an image."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._file = socket.create_connection(address).makefile("rw")
        self.edition = json.loads(self._file.readline())["edition"]

    def close(self) -> None:
        self._file.close()

    def _call(self, *request: Any) -> Any:
        self._file.write(json.dumps(request) + "\n")
        self._file.flush()
        return json.loads(self._file.readline())

    def offers(self) -> Any:
        return self._call("offers")

    def order(self, key: str, call: dict[str, Any]) -> Any:
        return self._call("order", key, call)


class Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        self._send({"edition": f"hoists {PRICE}"})
        for line in self.rfile:
            name, *arguments = json.loads(line)
            offers = [{"supplier": "S-17", "item": "Hoist", "amount": PRICE}]
            self._send(issue_purchase_order(*arguments) if name == "order" else offers)

    def _send(self, value: Any) -> None:
        self.wfile.write(json.dumps(value).encode() + b"\n")


def serve() -> tuple[str, int]:
    """Serve the catalogue in a thread, and return its address."""
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return "127.0.0.1", int(server.server_address[1])
