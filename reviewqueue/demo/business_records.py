"""Business records for the sample agent: a small HTTP server with purchase requests, suppliers and orders.

    python3 business_records.py [--port 8001] [--file records.json]

    GET  /purchase-requests/PR-4711                  what to buy, and the version of its specification
    PUT  /purchase-requests/PR-4711/specification    {"version": 8}: change the specification
    GET  /suppliers                                  suppliers of the item
    POST /offers   {"supplier", "specification"}     ask a supplier for an offer
    POST /orders   {"supplier", "amount", ...}       issue a purchase order; also /refunds, /mails, /payments
    GET  /orders                                     orders, and how often each was requested; also for the others

Each POST has an effect that another call cannot undo. It needs an `Idempotency-Key` and acts once per key, however often the
key arrives. With RECORDS_TOKEN in the environment every call must send it as `Authorization: Bearer ...`. With `--file` the
records are stored.
"""

from __future__ import annotations

import argparse
import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

PURCHASE_REQUEST = {
    "id": "PR-4711",
    "site": "Hall 3",
    "item": "Hoist for tower crane 14",
    "specification": {"version": 7, "load_kg": 2000},
}
SUPPLIERS = [
    {"id": "S-17", "name": "Adler Hebetechnik", "in_register": True, "price": "184000.00"},
    {"id": "S-22", "name": "Berg Krane", "in_register": True, "price": "191500.00"},
    {"id": "S-31", "name": "Cosmo Lift", "in_register": False, "price": "149000.00"},
]
DONE = {"offers": "OF", "orders": "PO", "refunds": "RF", "mails": "ML", "payments": "PY"}


class Records:
    """All stored data. ``done`` maps each Idempotency-Key to its receipt and counts how often the key arrived."""

    def __init__(self, file: Path | None = None) -> None:
        self.file, self.lock = file, threading.Lock()
        self.content: dict[str, Any] = {"request": PURCHASE_REQUEST, "done": {}, "next_number": 2231}
        if file is not None and file.exists():
            self.content = json.loads(file.read_text())

    def do_once(self, kind: str, key: str, wanted: dict[str, Any]) -> dict[str, Any]:
        """Act once per key, and return the receipt."""
        with self.lock:
            known = self.content["done"].setdefault(f"{kind} {key}", {"times": 0, "kind": kind, "receipt": None})
            known["times"] += 1
            if known["receipt"] is None:
                known["receipt"] = self._receipt(kind, wanted)
            self._save()
            receipt: dict[str, Any] = known["receipt"]
            return receipt

    def change_specification(self, version: int) -> dict[str, Any]:
        """Change the specification. Each version has a heavier load, so that old offers no longer fit."""
        with self.lock:
            specification = {"version": version, "load_kg": 2000 + 500 * (version - 7)}
            self.content["request"] = self.content["request"] | {"specification": specification}
            self._save()
            return specification

    def done(self, kind: str) -> list[dict[str, Any]]:
        """Return the receipts of one kind, each with the number of times its key arrived."""
        return [it["receipt"] | {"asked": it["times"]} for it in self.content["done"].values() if it["kind"] == kind]

    def _receipt(self, kind: str, wanted: dict[str, Any]) -> dict[str, Any]:
        if kind == "offers":
            supplier = next(it for it in SUPPLIERS if it["id"] == wanted["supplier"])
            return {"supplier": supplier["id"], "amount": supplier["price"], "specification": wanted["specification"]}
        number = self.content["next_number"]
        self.content["next_number"] = number + 1
        return {"number": f"{DONE[kind]}-{number}", "amount": wanted.get("amount")}

    def _save(self) -> None:
        if self.file is not None:
            temporary = self.file.with_suffix(".new")
            temporary.write_text(json.dumps(self.content))
            temporary.replace(self.file)


class Handler(BaseHTTPRequestHandler):
    """Handles one request. ``serve`` sets ``records``."""

    records: Records

    def do_GET(self) -> None:
        request = self.records.content["request"]
        if self._is_allowed():
            if self.path == f"/purchase-requests/{request['id']}":
                self._reply(200, request)
            elif self.path == "/suppliers":
                self._reply(200, {"suppliers": SUPPLIERS})
            elif self.path[1:] in DONE:
                self._reply(200, {self.path[1:]: self.records.done(self.path[1:])})
            else:
                self._reply(404, {"error": "no such record"})

    def do_PUT(self) -> None:
        if self._is_allowed():
            if self.path == f"/purchase-requests/{self.records.content['request']['id']}/specification":
                self._reply(200, self.records.change_specification(self._body()["version"]))
            else:
                self._reply(404, {"error": "no such record"})

    def do_POST(self) -> None:
        if self._is_allowed():
            key = self.headers.get("Idempotency-Key", "")
            if self.path[1:] not in DONE or not key:
                self._reply(400, {"error": f"POST one of {', '.join(DONE)}, with an Idempotency-Key"})
            else:
                self._reply(200, self.records.do_once(self.path[1:], key, self._body()))

    def _is_allowed(self) -> bool:
        token = os.environ.get("RECORDS_TOKEN")
        allowed = not token or self.headers.get("Authorization") == f"Bearer {token}"
        if not allowed:
            self._reply(401, {"error": "the token is missing or wrong"})
        return allowed

    def _body(self) -> Any:
        return json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))

    def _reply(self, status: int, reply: Any) -> None:
        body = json.dumps(reply).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Log no requests."""


def serve(port: int, file: Path | None) -> ThreadingHTTPServer:
    """Return a server of the records, on this machine only."""
    handler = type("OwnHandler", (Handler,), {"records": Records(file)})
    return ThreadingHTTPServer(("127.0.0.1", port), handler)


if __name__ == "__main__":
    options = argparse.ArgumentParser(description="Business records for the sample agent.")
    options.add_argument("--port", type=int, default=8001)
    options.add_argument("--file", type=Path)
    chosen = options.parse_args()
    server = serve(chosen.port, chosen.file)
    print(f"Business records on http://127.0.0.1:{server.server_address[1]}", flush=True)  # noqa: T201  output of a process
    server.serve_forever()
