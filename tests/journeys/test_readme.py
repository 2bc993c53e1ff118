"""The README, executed: its commands, its first agent and its curls do what they say, on a server of their own."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from tests import own_processes
from tests.running_server import RunningServer, running_server

pytestmark = pytest.mark.django_db(transaction=True)

README = (settings.ROOT / "README.md").read_text()


def block(language: str, begins: str) -> str:
    """Return the README's code block of this language that begins so."""
    blocks = re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)
    return next(text for text in blocks if text.startswith(begins))


@pytest.fixture
def server(tmp_path: Path):
    typed = [shlex.split(line, comments=True) for line in block("sh", "export SECRET_KEY").splitlines()]
    world = [shlex.join(line[2:]) for line in typed if line[:2] == ["python3", "manage.py"] and line[2] != "up"]
    with running_server(tmp_path, world) as server:
        yield server


def test_the_first_agent_is_killed_and_continues_with_the_answer(server: RunningServer):
    script = block("python", "import os")
    assert len([line for line in script.splitlines() if line.strip()]) <= 10

    def start() -> subprocess.Popen[str]:
        client = {"PYTHONPATH": str(settings.ROOT / "clients" / "python" / "src")}
        return subprocess.Popen(
            [sys.executable, "-c", script], env=server.environment | client, stdout=subprocess.PIPE, text=True
        )

    killed = start()
    [wait] = own_processes.eventually(lambda: server.call("GET", "interrupts?status=waiting")["interrupts"], within=30)
    killed.kill()
    killed.communicate()
    server.call("POST", f"interrupts/{wait['id']}/decisions", {"state_version": 1, "verdict": "approve"})
    for _ in range(2):  # and once more after the end
        agent = start()
        assert agent.communicate(timeout=60)[0] == "{'order': 'PO-2231', 'amount': '184000.00'}\n"
        assert agent.returncode == 0
    assert [run["status"] for run in server.call("GET", "runs", key=server.key)["runs"]] == ["completed"]


def test_every_curl_does_what_its_line_says(server: RunningServer):
    text = block("sh", "api() {")
    definition, _, rest = text.partition("\n\n")
    commands = re.split(r"\n(?=(?:KEY=\$TOKEN )?api )", rest.strip())
    assert len(commands) == 10
    environment = dict(server.environment)
    for command in commands:
        done = subprocess.run(
            ["bash", "-c", f"{definition}\n{command}"], env=environment, capture_output=True, text=True, check=True
        )
        reply = json.loads(done.stdout)
        assert not (isinstance(reply, dict) and "code" in reply), f"{command}\n{reply}"
        environment |= named_in(reply)
    assert reply["status"] == "completed"


def named_in(reply: Any) -> dict[str, str]:
    """Return the variables that the next lines use, out of what the last one was answered."""
    if isinstance(reply, list):
        [claimed] = reply
        return {"RUN": claimed["run"]["id"], "LEASE": claimed["lease"]["token"]}
    found = {}
    if "lease" in reply:
        found |= {"RUN": reply["id"], "LEASE": reply["lease"]["token"]}
    if "attempt_token" in reply:
        found["ATTEMPT"] = reply["attempt_token"]
    if reply.get("interrupts"):
        found["INTERRUPT"] = reply["interrupts"][0]["id"]
    return found
