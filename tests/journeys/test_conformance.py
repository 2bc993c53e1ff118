"""Generated calls against a running server: no server error, and no reply that the OpenAPI document does not have.

Schemathesis makes the calls out of the document, as an agent and as a person, with ids that are there and with ids that are
not. What a call should be answered with is judged elsewhere.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ledger.exact_json import dumps
from reviewqueue.api.openapi.document import document
from tests import figures
from tests.running_server import RunningServer, running_server

pytestmark = pytest.mark.long

CHECKS = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "ignored_auth",
]
CALL = {"name": "issue_order", "arguments": {"supplier": "S-17", "amount": "184000.00"}}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("server")
    with running_server(folder) as server:
        yield server


def what_is_there(server: RunningServer) -> dict[str, Any]:
    """Make a run with a lease and a begun effect, a waiting and an answered interrupt; return what leads to them."""
    agent: dict[str, Any] = {"key": server.key}
    started = server.call("POST", "runs", {"key": "busy", "title": "Busy", "lease_seconds": 3600}, **agent)
    lease = started["lease"]["token"]
    server.call("PUT", f"runs/{started['id']}/effects/order", CALL, Run_Lease=lease, **agent)
    wait = {"title": "Order it", "reason": "approval.action", "queue": "purchasing", "proposal": CALL}
    waiting, answered = (
        server.call("POST", "asks", {"key": key, **wait}, **agent)["interrupt"] for key in ("one", "two")
    )
    server.call("POST", f"interrupts/{answered['id']}/decisions", {"state_version": 1, "verdict": "approve"})
    continuation = server.call("GET", f"interrupts/{answered['id']}", **agent)["continuation"]
    return {
        "path.run_id": started["id"],
        "path.interrupt_id": waiting["id"],
        "path.continuation_id": continuation,
        "path.key": "order",
        "path.slug": "buyer",
        "header.Run-Lease": lease,
    }


@pytest.mark.parametrize("ids", ["there", "generated"])
@pytest.mark.parametrize("who", ["agent", "person"])
def test_generated_calls_meet_nothing_undocumented(server: RunningServer, who: str, ids: str, tmp_path: Path):
    (tmp_path / "openapi.json").write_text(dumps(document()))
    known = what_is_there(server) if ids == "there" else {}
    known |= {"query.wait": 0}  # a long poll without an event only takes time
    lines = ["[parameters]", *(f'"{name}" = {json.dumps(value)}' for name, value in known.items())]
    (tmp_path / "schemathesis.toml").write_text("\n".join(lines) + "\n")
    command = [Path(sys.executable).parent / "schemathesis", "run", "openapi.json", "--url", server.base]
    command += ["-H", f"Authorization: Bearer {server.key if who == 'agent' else server.token}"]
    command += ["--checks", ",".join(CHECKS), "--phases", "examples,coverage,fuzzing", "--max-examples", "25"]
    command += ["--request-timeout", "60", "--seed", str(figures.SEED), "--generation-database", "none"]
    command += ["--continue-on-failure", "--suppress-health-check", "all", "--warnings", "off", "--no-color"]
    done = subprocess.run(
        command, cwd=tmp_path, env=server.environment, capture_output=True, text=True, timeout=1800, check=False
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr
