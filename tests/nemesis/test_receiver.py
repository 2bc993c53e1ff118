"""The receiver injects its twelve kinds of faults and counts what it really did."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer

import pytest

from tests.nemesis import receiver
from tests.nemesis.receiver import AFTER, BEFORE, FAULTS, Receiver, World


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(receiver, "PATIENCE", 0.2)
    Receiver.world = World(seed=1)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    thread = threading.Thread(target=server.serve_forever, args=[0.05], daemon=True)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()
    thread.join()


def response_of(port: int) -> str:
    """Perform an effect there; return what a careful client knows of it afterwards."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=0.3)
    try:
        connection.request("POST", "/do/run_1/order", b"{}")
        reply = connection.getresponse()
        body = reply.read()
        return "done" if reply.status == 200 and isinstance(json.loads(body)["number"], int) else str(reply.status)
    except (OSError, http.client.HTTPException, ValueError):
        return "nothing"
    finally:
        connection.close()


def test_there_are_twelve_faults():
    assert len(set(FAULTS)) == 12


def test_without_a_fault_it_is_done_and_reported(port: int):
    assert (response_of(port), len(Receiver.world.done["run_1/order"])) == ("done", 1)


EXPECTED = {
    "500 before": "500",
    "500 after": "500",
    "429": "429",
    "redirects": "302",
    "slow": "done",
    "huge reply": "200",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_before_does_nothing_and_one_after_has_done_it(fault: str, port: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Receiver.world, "draw", lambda: fault)
    assert response_of(port) == EXPECTED.get(fault, "nothing")
    assert len(Receiver.world.done.get("run_1/order", [])) == (1 if fault in AFTER else 0)
    assert (fault in BEFORE) != (fault in AFTER)
