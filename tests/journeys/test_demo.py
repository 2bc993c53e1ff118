"""`manage.py demo` as somebody meets it: one command, two sign-ins, waits to decide, live agents; started again."""

from __future__ import annotations

import json
import re
import signal
import socket
from pathlib import Path

import httpx
import psutil
import pytest

from tests.own_processes import (
    environment_for,
    eventually,
    free_port,
    make_migrated_database,
    make_own_database,
    query,
    run_command,
    started,
)


class Demo:
    """A demo with a database, a port and a file of its own."""

    def __init__(self, folder: Path, address: str) -> None:
        self.port, self.address, self.log = free_port(), address, folder / "log"
        self.kept, self.url = folder / "demo.json", f"http://localhost:{self.port}"
        self.environment = environment_for(address, PORT=str(self.port))

    def running(self):
        return started("demo", "--kept", str(self.kept), environment=self.environment, log=self.log)

    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def is_told(self, times: int = 1) -> bool:
        return self.said().count("Review Queue is at") >= times

    def rows(self, table: str) -> int:
        return query(self.address, f"SELECT count(*) FROM {table}")[0][0]  # noqa: S608  names of ours

    def agent_says(self, words: str) -> bool:
        return words in self.said()


@pytest.fixture
def demo(tmp_path):
    return Demo(tmp_path, make_own_database(tmp_path))


def stop(process: psutil.Process, demo: Demo) -> list[psutil.Process]:
    """Press Ctrl-C; returns every process that was there."""
    there = [process, *process.children(recursive=True)]
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=120) == 0, demo.said()
    return there


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [it for it in processes if it.is_running() and it.status() != psutil.STATUS_ZOMBIE]


def agents_alive(process: psutil.Process) -> list[psutil.Process]:
    there = alive(process.children(recursive=True))
    return [it for it in there if any(word.endswith("_agent") for word in it.cmdline())]


def sign_in(demo: Demo, address: str, password: str, *, then: str) -> httpx.Response:
    """Fill in the sign-in page; returns the page that comes then."""
    with httpx.Client(base_url=demo.url, follow_redirects=True) as client:
        page = client.get("/account/login/")
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)[1]
        form = {"csrfmiddlewaretoken": token, "login": address, "password": password, "next": then}
        return client.post("/account/login/", data=form, headers={"Origin": demo.url})


@pytest.mark.slow
def test_the_demo_shows_its_world_and_stops_without_a_trace(demo):
    with demo.running() as process:
        eventually(demo.is_told, within=90, log=demo.log)
        told = told_sign_ins(demo)
        assert set(told) == {"rita@example.org", "olga@example.org"}
        inbox = sign_in(demo, "rita@example.org", told["rita@example.org"], then="/")
        assert (inbox.status_code, inbox.url.path) == (200, "/")
        assert "R-20418" in inbox.text
        desk = sign_in(demo, "olga@example.org", told["olga@example.org"], then="/admin/reviewqueue/unknownoutcome/")
        assert (desk.status_code, desk.url.path) == (200, "/admin/reviewqueue/unknownoutcome/")

        eventually(lambda: demo.agent_says("asked for certificate, and let go"), within=30, log=demo.log)
        eventually(lambda: demo.agent_says("Wrong colour delivered: approve"), within=30, log=demo.log)
        kept = json.loads(demo.kept.read_text())
        assert demo.kept.stat().st_mode & 0o077 == 0
        waiting = waits(demo, kept["people"]["rita@example.org"]["token"])
        assert {wait["queue"] for wait in waiting} == {"engineering", "refunds", "payments"}
        assert len(waiting) >= 8

        decide_certificate(demo, kept["people"]["rita@example.org"]["token"], waiting)
        eventually(lambda: demo.agent_says("asked for order, and let go"), within=30, log=demo.log)
        eventually(lambda: agents_alive(process) == [], within=10, log=demo.log)
        [(status, owner)] = query(
            demo.address,
            "SELECT e.status, g.name FROM ledger_effect e JOIN auth_group g ON g.id = e.owner_id"
            " WHERE e.key = 'credit:R-20299'",
        )
        assert (status, owner) == ("unknown", "support-platform")
        left = alive(stop(process, demo))
        assert left == []


@pytest.mark.long
def test_the_demo_started_again_forgets_nothing_and_seeds_nothing_twice(demo):
    with demo.running() as process:
        eventually(lambda: demo.agent_says("Wrong colour delivered: approve"), within=90, log=demo.log)
        stop(process, demo)
    runs, people, sign_ins = demo.rows("runs_run"), demo.rows("auth_user"), told_sign_ins(demo)
    with demo.running() as process:
        eventually(lambda: demo.is_told(times=2), within=90, log=demo.log)
        assert all(demo.said().count(password) == 2 for password in sign_ins.values()), "the same are told again"
        assert (demo.rows("runs_run"), demo.rows("auth_user")) == (runs, people)
        there = process.children(recursive=True)
        process.kill()
        eventually(lambda: alive(there) == [], within=40, log=demo.log)


def told_sign_ins(demo: Demo) -> dict[str, str]:
    return dict(re.findall(r"^    \w+ +(\S+@\S+) +password (\S+)", demo.said(), re.MULTILINE))


def waits(demo: Demo, token: str) -> list[dict]:
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.get(f"{demo.url}/api/v1/interrupts?status=waiting", headers=headers).json()["interrupts"]


def decide_certificate(demo: Demo, token: str, waiting: list[dict]) -> None:
    [certificate] = [wait for wait in waiting if wait["key"] == "certificate"]
    said = {"number": "LT-2026-0917", "issuer": "TÜV Süd", "valid_until": "2027-09-17"}
    reply = httpx.post(
        f"{demo.url}/api/v1/interrupts/{certificate['id']}/decisions",
        headers={"Authorization": f"Bearer {token}"},
        json={"state_version": certificate["state_version"], "verdict": "answer", "input": said},
    )
    assert reply.status_code == 201, reply.text


def refused(demo: Demo, **more: str) -> str:
    demo.environment |= more
    with demo.running() as process:
        assert process.wait(timeout=60) != 0
    return demo.said()


def test_the_demo_refuses_to_be_reached_from_elsewhere(demo):
    assert "this machine only" in refused(demo, HOST="0.0.0.0")  # noqa: S104  refused, not bound
    assert not demo.kept.exists()


def test_the_demo_says_when_its_port_is_taken(demo):
    with socket.create_server(("127.0.0.1", demo.port)):
        assert f"The port {demo.port} is taken" in refused(demo)


@pytest.mark.slow
def test_the_demo_leaves_a_database_alone_that_somebody_works_with(tmp_path):
    demo = Demo(tmp_path, make_migrated_database(tmp_path))
    run_command("add_agent", "buyer", "--owner", "platform", environment=demo.environment)
    assert "left alone" in refused(demo)
    assert demo.rows("runs_queue") == 0
