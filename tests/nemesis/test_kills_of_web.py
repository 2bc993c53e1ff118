"""kill -9 of the web process while clients create: every acknowledged run exists once. SQLite: `test_kills_on_sqlite`."""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from pathlib import Path

import pytest
from django.conf import settings

from tests import figures
from tests.nemesis.clients import Client, Script
from tests.nemesis.history import read
from tests.nemesis.world import ManagedProcess
from tests.own_processes import eventually, query
from tests.running_server import RunningServer, running_server

KILLS = 50 if os.environ.get("REVIEWQUEUE_LONG") else 3
CLIENTS = 4


class Creator(Client):
    """Creates runs, each with a key that is repeated until a response arrives."""

    def live(self) -> None:
        while not self.over():
            key = self.new_key()
            body = {"key": key, "title": "A run"}
            self.call("create", "POST", "runs", body, about={"key": key}, tell=lambda it: {"run": it["id"]}, tries=1000)
        self.record.close()


def web_again(desk: RunningServer, folder: Path) -> ManagedProcess:
    """A separate web process that can be killed and restarted."""
    web = ManagedProcess(
        "web",
        [sys.executable, str(settings.ROOT / "manage.py"), "web"],
        desk.environment,
        folder / "web-again.log",
    )
    web.start()
    return web


@pytest.mark.django_db
@pytest.mark.proves(1, 2)
@pytest.mark.postgresql
def test_what_was_created_is_there_once_however_often_the_server_was_killed(tmp_path: Path):
    chance = random.Random(figures.SEED)
    with running_server(tmp_path) as desk:
        pass  # its world is made; its server is followed by one that can be killed
    port = int(desk.base.rpartition(":")[2])
    web = web_again(desk, tmp_path)
    try:
        eventually(lambda: answers(desk), within=90, log=tmp_path / "web-again.log")
        threads = [threading.Thread(target=a_creator(desk, tmp_path, port, number).live) for number in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for _ in range(KILLS):
            time.sleep(chance.uniform(0.5, 3))
            web.again()
            eventually(lambda: answers(desk), within=90, log=tmp_path / "web-again.log")
        (tmp_path / "stop").touch()
        for thread in threads:
            thread.join(120)
    finally:
        web.kill()
    judge(tmp_path, desk)


def answers(desk: RunningServer) -> bool:
    try:
        return bool(desk.call("GET", "agents/me", key=desk.key))
    except OSError:
        return False


def a_creator(desk: RunningServer, folder: Path, port: int, number: int) -> Creator:
    words = {"name": f"client-{number}", "ports": [port], "token": desk.key, "receiver": 0, "seed": figures.SEED}
    return Creator(Script(folder=folder, stop_file=folder / "stop", **words))


def judge(folder: Path, desk: RunningServer) -> None:
    calls = read(folder)
    told = {call.about["key"]: call.told["run"] for call in calls if call.ok}
    kept = query(desk.environment["DATABASE_URL"], "SELECT key, public_id FROM runs_run")
    assert set(told.items()) <= set(kept), "a create was answered and is lost"
    assert len(kept) == len(dict(kept)), "a key made two runs"
    in_doubt = sum(not call.ok for call in calls)
    assert in_doubt, "no kill met a call"
    assert {key for call in calls for key in [call.about["key"]]} == set(told), (
        "a client never learnt what came of its key"
    )
    figures.count("kills of the web under creates", "0 lost, 0 doubled", n=KILLS, of=1)
    figures.count("creates answered under kills of the web", "each is there once", n=len(told), of=1)
    figures.count("creates that met a kill and were asked again", "the same object", n=in_doubt, of=2)
