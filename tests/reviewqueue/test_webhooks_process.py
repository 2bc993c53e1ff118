"""Webhooks through a real worker: how soon a message comes, and that a worker killed in the call loses none."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.own_processes import environment_for, eventually, make_migrated_database, run_command, started
from tests.webhooks.receiver import receiver

IN_A_HURRY = ("worker", "--beat-every", "0.5", "--old-after", "20", "--grace", "15")
REGISTER = "from tests.webhooks.webhook_builders import an_endpoint; print(an_endpoint({url!r}, 'run.started').secret)"
START = "from tests import builders; builders.a_running_run(key={key!r})"
LET_TIME_PASS = "from tests.webhooks.webhook_builders import make_everything_due; make_everything_due()"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return environment_for(make_migrated_database(tmp_path), OUTBOUND_ALLOW="127.0.0.0/8")


def run_shell(environment: dict[str, str], code: str) -> str:
    return run_command("shell", "--verbosity", "0", "-c", code, environment=environment)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.mark.proves(10)
def test_a_message_comes_within_seconds_and_again_after_a_worker_died_in_the_call(environment, log):
    with receiver() as server:
        secret = run_shell(environment, REGISTER.format(url=server.url)).strip()
        server.will("silent", 200)
        with started(*IN_A_HURRY, environment=environment, log=log) as worker:
            run_shell(environment, START.format(key="first"))
            eventually(lambda: server.got, within=60, log=log)
            family = [worker, *worker.children(recursive=True)]
            for process in family:  # in the middle of the call
                process.kill()
        [first] = server.got
        run_shell(environment, LET_TIME_PASS)
        with started(*IN_A_HURRY, environment=environment, log=log):
            eventually(lambda: len(server.got) > 1, within=60, log=log)
            run_shell(environment, START.format(key="second"))
            committed = time.monotonic()
            eventually(lambda: len(server.got) > 2, within=60, log=log)
    assert server.got[1].headers["webhook-id"] == first.headers["webhook-id"]
    assert server.got[1].body == first.body
    messages = [got.verified_by(secret) for got in server.got]
    assert [message["data"]["sequence"] for message in messages] == [1, 1, 2]
    assert json.loads(first.body)["type"] == "run.started"
    assert server.got[2].at - committed < 60, "seconds, on a machine that has nothing else to do"
