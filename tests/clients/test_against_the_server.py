"""The clients against a real server: killed agents lose and repeat nothing, and the guide does what it says."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings

from tests import figures, own_processes
from tests.clients.kills import PYTHON_CLIENT, World, a_world, kill_at_points, kill_at_random
from tests.docs_session import blocks_of

pytestmark = [pytest.mark.django_db(transaction=True)]

AGENTS = settings.ROOT / "tests" / "clients"
TYPESCRIPT = settings.ROOT / "clients" / "typescript"
COMMANDS = {
    "python": [sys.executable, str(AGENTS / "kill_agent.py")],
    "typescript": ["node", str(AGENTS / "kill_agent.mjs")],
}
needs_node = pytest.mark.skipif(
    not (shutil.which("npm") and (TYPESCRIPT / "node_modules").exists()),
    reason="needs Node 20 and `npm ci --ignore-scripts` in clients/typescript",
)
EACH_CLIENT = pytest.mark.parametrize("client", ["python", pytest.param("typescript", marks=needs_node)])
#: Where a kill costs most: between an act and its record.
POINTS = [
    "after PUT steps/offer",
    "after effect mail",
    "after POST interrupts",
    "after effect order",
    "after POST complete",
]
MORE_POINTS = [
    "before POST runs",
    "after POST runs",
    "before POST claim",
    "after POST claim",
    "before PUT steps/offer",
    "before PUT steps/second",
    "before PUT effects/mail:.*",
    "after PUT effects/mail:.*",
    "before effect mail",
    "after POST effects/mail:.*/outcome",
    "before POST checkpoints",
    "after POST checkpoints",
    "before POST interrupts",
    "before PUT steps/note",
    "after PUT effects/order:.*",
    "after POST effects/order:.*/outcome",
    "before POST complete",
]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, django_db_setup: None) -> Iterator[World]:
    with a_world(tmp_path_factory.mktemp("world")) as world:
        yield world


@pytest.fixture(scope="module")
def built() -> None:
    """Compile the TypeScript client."""
    if shutil.which("npm") and (TYPESCRIPT / "node_modules").exists():
        subprocess.run(["npm", "run", "build"], cwd=TYPESCRIPT, check=True, capture_output=True)


@pytest.mark.slow
@EACH_CLIENT
def test_an_agent_killed_at_a_named_point_ends_as_if_it_had_not_been(client: str, world: World, built: None):
    kill_at_points(world, COMMANDS[client], POINTS, name=client)


@pytest.mark.long
@EACH_CLIENT
def test_agents_killed_two_hundred_times_end_as_if_they_had_not_been(client: str, world: World, built: None):
    command = COMMANDS[client]
    killed = kill_at_points(world, command, MORE_POINTS, name=client)
    killed += kill_at_random(world, command, runs=55, kills=4, seed=figures.SEED, slowest=2.5, name=client)
    assert killed >= 200


@pytest.mark.slow
@needs_node
def test_the_tests_of_the_typescript_client_pass(built: None):
    subprocess.run(["node", "--test", "test/"], cwd=TYPESCRIPT, check=True, capture_output=True)


# --- attachments --------------------------------------------------------------------------------------------------------

PDF = b"%PDF-1.7\n1 0 obj\n<< /Type /Catalog >>\nendobj\ntrailer << /Root 1 0 R >>\n%%EOF\n"
READ_THE_ANSWER = {
    "python": """
from reviewqueue_client import Client, Run
[claim] = Client().call("POST", "continuations/claim", {"lease_seconds": 30, "code_version": KEY}, idempotency_key=KEY)
run = Run(Client(), claim, lease_seconds=30)
[file] = run.answers[KEY].attachments
print(file.name, file.media_type, file.size, run.download(file).hex())
run.complete()
""",
    "typescript": """
import { Client, Run } from "INDEX";
const body = { lease_seconds: 30, code_version: KEY };
const [claim] = await new Client().call("POST", "continuations/claim", body, { idempotencyKey: KEY });
const run = new Run(new Client(), claim, 30);
const [file] = run.answers[KEY].attachments;
console.log(file.name, file.media_type, file.size, Buffer.from(await run.download(file)).toString("hex"));
await run.complete();
""",
}


@pytest.mark.slow
@EACH_CLIENT
def test_a_file_that_a_reviewer_attached_is_downloaded_with_the_answer(client: str, world: World, built: None):
    key = f"certificate-{client}"
    schema = {"type": "string", "format": "attachment"}
    asked = {
        "key": key,
        "title": "Certificate",
        "reason": "approval.action",
        "input_schema": schema,
        "code_version": key,
    }
    interrupt = world.server.call("POST", "asks", asked, key=world.server.key)["interrupt"]["id"]
    upload = urllib.request.Request(  # noqa: S310
        f"{world.server.base}/api/v1/interrupts/{interrupt}/attachments?name=LT-2026.pdf",
        data=PDF,
        headers={"Authorization": f"Bearer {world.server.token}", "Content-Type": "application/octet-stream"},
    )
    with urllib.request.urlopen(upload) as reply:  # noqa: S310
        digest = json.load(reply)["digest"]
    answer = {"state_version": 1, "verdict": "answer", "input": digest}
    world.server.call("POST", f"interrupts/{interrupt}/decisions", answer)
    own_processes.eventually(lambda: has_run(world, key, "ready"), within=60)
    script = READ_THE_ANSWER[client].replace("KEY", json.dumps(key)).replace("INDEX", str(TYPESCRIPT / "dist/index.js"))
    command = [sys.executable, "-c", script] if client == "python" else ["node", "--input-type=module", "-e", script]
    said, _ = start(world, *command).communicate(timeout=120)
    assert said == f"LT-2026.pdf application/pdf {len(PDF)} {PDF.hex()}\n"


# --- docs/clients.md ----------------------------------------------------------------------------------------------------

FIRST_AGENT, WORKER, TEST_OF_AN_AGENT, *_ = [
    block.text for block in blocks_of(settings.ROOT / "docs" / "clients.md") if block.language == "python"
]
PRINTED = next(block.text for block in blocks_of(settings.ROOT / "docs" / "clients.md") if block.language == "text")


def start(world: World, *command: str) -> subprocess.Popen[str]:
    own = {"REVIEW_QUEUE": world.server.base, "REVIEW_QUEUE_KEY": world.server.key, "PYTHONPATH": str(PYTHON_CLIENT)}
    return subprocess.Popen(command, env=world.server.environment | own, stdout=subprocess.PIPE, text=True)


def has_run(world: World, key: str, *status: str) -> Any:
    found = world.server.call("GET", f"runs?key={key}", key=world.server.key)["runs"]
    return [run for run in found if run["status"] in status]


@pytest.mark.slow
def test_the_first_agent_of_the_guide_prints_the_same_when_it_is_started_again(world: World):
    assert len([line for line in FIRST_AGENT.splitlines() if line.strip()]) <= 10
    for _ in range(2):
        said, _ = start(world, sys.executable, "-c", FIRST_AGENT).communicate(timeout=120)
        assert said == "{'order': 'PO-2231', 'amount': '184000.00'}\n"


@pytest.mark.slow
def test_the_worker_of_the_guide_claims_what_is_ready_and_ends_at_a_signal(world: World):
    body = {"key": "PR-2", "title": "Order two", "lease_seconds": 0, "code_version": "1"}
    world.server.call("POST", "runs", body, key=world.server.key)
    worker = start(world, sys.executable, "-c", WORKER)
    try:
        own_processes.eventually(lambda: has_run(world, "PR-2", "completed"), within=60)
        os.kill(worker.pid, signal.SIGTERM)
        assert worker.wait(timeout=60) == 0
    finally:
        worker.kill()
        worker.communicate()


def test_the_test_of_the_guide_prints_what_it_says():
    agent = FIRST_AGENT[: FIRST_AGENT.index("print(")]
    own = os.environ | {"PYTHONPATH": str(PYTHON_CLIENT)}
    done = subprocess.run(
        [sys.executable, "-c", agent + TEST_OF_AN_AGENT], env=own, capture_output=True, text=True, check=True
    )
    assert done.stdout == PRINTED
