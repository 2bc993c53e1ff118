"""`manage.py demo`: one command, two sign-ins, requests to decide, running agents, and a second start."""

from __future__ import annotations

import contextlib
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
        self.file, self.url = folder / "demo.json", f"http://localhost:{self.port}"
        self.environment = environment_for(address, PORT=str(self.port))

    def running(self):
        return started("demo", "--file", str(self.file), environment=self.environment, log=self.log)

    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def has_printed_its_address(self, times: int = 1) -> bool:
        return self.output().count("Review Queue is at") >= times

    def rows(self, table: str) -> int:
        return query(self.address, f"SELECT count(*) FROM {table}")[0][0]  # noqa: S608  names of ours

    def agent_printed(self, text: str) -> bool:
        return text in self.output()


@pytest.fixture
def demo(tmp_path):
    return Demo(tmp_path, make_own_database(tmp_path))


def stop(process: psutil.Process, demo: Demo) -> list[psutil.Process]:
    """Press Ctrl-C; return every process of the demo."""
    processes = [process, *process.children(recursive=True)]
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=120) == 0, demo.output()
    return processes


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [it for it in processes if it.is_running() and it.status() != psutil.STATUS_ZOMBIE]


def agents_alive(process: psutil.Process) -> list[psutil.Process]:
    return [it for it in process.children(recursive=True) if is_agent(it)]


def is_agent(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):  # it has ended, or ends now
        return any(word.endswith("_agent") for word in process.cmdline())
    return False


def sign_in(demo: Demo, address: str, password: str, *, then: str) -> httpx.Response:
    """Fill in the sign-in page; returns the page that comes then."""
    with httpx.Client(base_url=demo.url, follow_redirects=True) as client:
        page = client.get("/account/login/")
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)[1]
        form = {"csrfmiddlewaretoken": token, "login": address, "password": password, "next": then}
        return client.post("/account/login/", data=form, headers={"Origin": demo.url})


@pytest.mark.slow
def test_the_demo_shows_its_sample_data_and_stops_every_process(demo):
    with demo.running() as process:
        eventually(demo.has_printed_its_address, within=90, log=demo.log)
        sign_ins = printed_sign_ins(demo)
        assert set(sign_ins) == {"rita@example.org", "olga@example.org"}
        inbox = sign_in(demo, "rita@example.org", sign_ins["rita@example.org"], then="/")
        assert (inbox.status_code, inbox.url.path) == (200, "/")
        assert "R-20418" in inbox.text
        admin_page = sign_in(
            demo, "olga@example.org", sign_ins["olga@example.org"], then="/admin/reviewqueue/unknownoutcome/"
        )
        assert (admin_page.status_code, admin_page.url.path) == (200, "/admin/reviewqueue/unknownoutcome/")

        eventually(lambda: demo.agent_printed("asked for certificate and released the lease"), within=30, log=demo.log)
        eventually(lambda: demo.agent_printed("Wrong colour delivered: approve"), within=30, log=demo.log)
        stored = json.loads(demo.file.read_text())
        assert demo.file.stat().st_mode & 0o077 == 0
        waiting = list_interrupts(demo, stored["people"]["rita@example.org"]["token"])
        assert {wait["queue"] for wait in waiting} == {"engineering", "refunds", "payments"}
        assert len(waiting) >= 8

        decide_certificate(demo, stored["people"]["rita@example.org"]["token"], waiting)
        eventually(lambda: demo.agent_printed("asked for order and released the lease"), within=30, log=demo.log)
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
def test_a_second_start_keeps_the_data_and_adds_nothing(demo):
    with demo.running() as process:
        eventually(lambda: demo.agent_printed("Wrong colour delivered: approve"), within=90, log=demo.log)
        stop(process, demo)
    runs, people, sign_ins = demo.rows("runs_run"), demo.rows("auth_user"), printed_sign_ins(demo)
    with demo.running() as process:
        eventually(lambda: demo.has_printed_its_address(times=2), within=90, log=demo.log)
        assert all(demo.output().count(password) == 2 for password in sign_ins.values()), (
            "a second start prints the same passwords"
        )
        assert (demo.rows("runs_run"), demo.rows("auth_user")) == (runs, people)
        there = process.children(recursive=True)
        process.kill()
        eventually(lambda: alive(there) == [], within=40, log=demo.log)


def printed_sign_ins(demo: Demo) -> dict[str, str]:
    return dict(re.findall(r"^    \w+ +(\S+@\S+) +password (\S+)", demo.output(), re.MULTILINE))


def list_interrupts(demo: Demo, token: str) -> list[dict]:
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.get(f"{demo.url}/api/v1/interrupts?status=waiting", headers=headers).json()["interrupts"]


def decide_certificate(demo: Demo, token: str, waiting: list[dict]) -> None:
    [certificate] = [wait for wait in waiting if wait["key"] == "certificate"]
    printed = re.search(r"Attach this file to your answer:  (.+)", demo.output())
    assert printed is not None
    place = f"{demo.url}/api/v1/interrupts/{certificate['id']}"
    authorization = {"Authorization": f"Bearer {token}"}
    attached = httpx.post(
        f"{place}/attachments?name=certificate.pdf",
        headers=authorization | {"Content-Type": "application/octet-stream"},
        content=Path(printed[1]).read_bytes(),
    )
    certificate_input = {
        "number": "LT-2026-0917",
        "issuer": "TÜV Süd",
        "valid_until": "2027-09-17",
        "document": attached.json()["digest"],
    }
    reply = httpx.post(
        f"{place}/decisions",
        headers=authorization,
        json={"state_version": certificate["state_version"], "verdict": "answer", "input": certificate_input},
    )
    assert reply.status_code == 201, reply.text


def refused(demo: Demo, **more: str) -> str:
    demo.environment |= more
    with demo.running() as process:
        assert process.wait(timeout=60) != 0
    return demo.output()


def test_the_demo_refuses_to_serve_other_machines(demo):
    assert "this machine only" in refused(demo, HOST="0.0.0.0")  # noqa: S104  refused, not bound
    assert not demo.file.exists()


def test_the_demo_reports_a_port_in_use(demo):
    with socket.create_server(("127.0.0.1", demo.port)):
        assert f"Port {demo.port} is in use" in refused(demo)


@pytest.mark.slow
def test_the_demo_refuses_a_database_with_other_agents(tmp_path):
    demo = Demo(tmp_path, make_migrated_database(tmp_path))
    run_command("add_agent", "buyer", "--owner", "platform", environment=demo.environment)
    assert "needs a database of its own" in refused(demo)
    assert demo.rows("runs_queue") == 0
