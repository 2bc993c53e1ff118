"""The purchase agent over real HTTP: it asks an engineer, exits, and continues in another process.

The agent and the business records are those that `manage.py demo` runs, each in its own process. Here the specification
stays as it was, or changes while the engineer looks for the certificate, or while the order waits for its approval.
"""

from __future__ import annotations

import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import httpx
import pytest

from reviewqueue import tasks
from reviewqueue.operations.api_keys import create_agent_key, create_personal_token
from runs.models import Connection, Interrupt, Run
from runs.timeline import find_broken_event
from tests import builders
from tests.own_processes import eventually, free_port

pytestmark = pytest.mark.django_db(transaction=True)

DEMO = Path(__file__).parents[2] / "reviewqueue" / "demo"
PDF = (DEMO / "load-test-certificate.pdf").read_bytes()
CERTIFICATE = {
    "number": "LT-2026-0917",
    "issuer": "TÜV Süd",
    "valid_until": "2027-09-17",
    "document": f"sha256:{sha256(PDF).hexdigest()}",
}


class World:
    """The review queue, the records, the agent, and two people, all reached as strangers reach them."""

    def __init__(self, queue: str, records: str, key: str) -> None:
        self.queue, self.records = queue, records
        self.environment = os.environ | {
            "REVIEW_QUEUE": queue,
            "REVIEW_QUEUE_KEY": key,
            "RECORDS": records,
            "WAIT": "0",
        }
        self.people = {}

    def agent(self, *words: str) -> list[str]:
        """Run a process of the agent until it exits, and return its output lines."""
        command = [sys.executable, str(DEMO / "purchase_agent.py"), *words]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    def person(self, address: str, method: str, path: str, **body: object) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.people[address]}"}
        if "content" in body:
            headers["Content-Type"] = "application/octet-stream"
        return httpx.request(method, f"{self.queue}/api/v1{path}", headers=headers, **body)

    def waiting(self, address: str, key: str) -> dict:
        listed = self.person(address, "GET", "/interrupts?status=waiting").json()["interrupts"]
        [waiting] = [wait for wait in listed if wait["key"] == key]
        return waiting

    def answer(self, address: str, key: str, **said: object) -> dict:
        """Decide the open request of this key with the digest that the person was shown, as a page does."""
        waiting = self.waiting(address, key)
        shown = self.person(address, "GET", f"/interrupts/{waiting['id']}").json()
        assert shown["may_decide"], shown["why_not"]
        seen = {"state_version": shown["state_version"], "content_digest": shown["content_digest"]}
        reply = self.person(address, "POST", f"/interrupts/{waiting['id']}/decisions", json=seen | said)
        assert reply.status_code == 201, reply.text
        tasks.sweep()  # what the worker does within a second
        return shown

    def answer_certificate(self, address: str, key: str = "certificate", **fields: str) -> dict:
        """Attach the PDF to the open request of this key, and answer it."""
        waiting = self.waiting(address, key)
        place = f"/interrupts/{waiting['id']}/attachments?name=LT-2026-0917.pdf"
        attached = self.person(address, "POST", place, content=PDF)
        assert attached.status_code == 201, attached.text
        return self.answer(address, key, verdict="answer", input=CERTIFICATE | fields)

    def change_specification(self, version: int) -> None:
        httpx.put(f"{self.records}/purchase-requests/PR-4711/specification", json={"version": version})

    def orders(self) -> list[dict]:
        return httpx.get(f"{self.records}/orders").json()["orders"]

    def timeline(self) -> list[str]:
        run = Run.objects.get()
        events = self.person("ana@example.org", "GET", f"/runs/{run.public_id}/timeline").json()["events"]
        assert find_broken_event(run) == ""
        return [event["type"] for event in events]


@pytest.fixture
def world(live_server, tmp_path):
    port = free_port()
    command = [sys.executable, str(DEMO / "business_records.py"), "--port", str(port)]
    records = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    try:
        eventually(lambda: answers(address), within=20)
        yield a_world(live_server.url, address)
    finally:
        records.kill()
        records.wait()


def answers(address: str) -> bool:
    try:
        return httpx.get(f"{address}/suppliers").status_code == 200
    except httpx.TransportError:
        return False


def a_world(queue: str, records: str) -> World:
    agent = builders.an_agent()
    Connection.objects.create(agent=agent, name="erp", base_url=records)
    builders.a_rule(agent=agent)
    builders.a_policy("evidence.missing")
    builders.a_policy("approval.action", queue=builders.a_queue("purchasing"))
    world = World(queue, records, create_agent_key(agent).text)
    for address, desk in (("ana@example.org", "engineering"), ("ben@example.org", "purchasing")):
        world.people[address] = create_personal_token(builders.a_reviewer(address, desk)).text
    return world


def test_the_specification_stays_and_the_order_is_issued_once(world):
    assert "released the lease" in world.agent("start", "PR-4711")[-1]
    assert Run.objects.get().status == "waiting"
    assert world.agent("continue") == [], "nothing to do while the engineer thinks"

    world.answer_certificate("ana@example.org")
    [_, received, asked] = world.agent("continue")
    assert received.endswith(f"received certificate LT-2026-0917: {len(PDF)} bytes")
    assert "asked for order" in asked
    shown = world.answer("ben@example.org", "order", verdict="approve")
    assert shown["proposal"]["arguments"]["certificate"] == CERTIFICATE["number"]
    assert [it["value"] for it in shown["evidence"]] == [CERTIFICATE["number"], CERTIFICATE["document"]]
    assert [(fact["name"], fact["value"]) for fact in shown["facts"]] == [("specification", 7)]
    assert "finished" in world.agent("continue")[-1]

    assert Run.objects.get().status == "completed"
    assert [(order["number"], order["asked"]) for order in world.orders()] == [("PO-2231", 1)]
    assert world.agent("start", "PR-4711") != []
    assert world.agent("continue") == []
    assert len(world.orders()) == 1
    assert world.timeline() == [
        "run.started",
        *("effect.begun", "effect.applied") * 2,
        *("run.suspended", "attachment.added"),
        *("interrupt.answered", "continuation.ready", "continuation.claimed"),
        *("run.suspended", "interrupt.answered", "continuation.ready", "continuation.claimed"),
        *("effect.begun", "effect.applied", "run.completed"),
    ]


def test_the_specification_changes_and_the_answer_is_kept_while_the_review_is_renewed(world):
    world.agent("start", "PR-4711")
    world.change_specification(8)
    world.answer_certificate("ana@example.org")

    said = world.agent("continue")
    assert "changed from 7 to 8" in said[1]
    assert "asked for certificate" in said[-1]

    first, second = Interrupt.objects.filter(key="certificate").order_by("round")
    assert (first.status, first.renewed, second.round, second.renews_id) == ("answered", True, 2, first.pk)
    [kept] = first.decisions.all()
    assert (kept.status, kept.input) == ("overtaken", CERTIFICATE)

    shown = world.answer_certificate("ana@example.org", number="LT-2026-1004")
    assert [(fact["value"], shown["round"]) for fact in shown["facts"]] == [(8, 2)]
    world.agent("continue")
    world.answer("ben@example.org", "order", verdict="approve")
    world.agent("continue")

    run = Run.objects.get()
    assert run.status == "completed"
    assert [(order["number"], order["asked"]) for order in world.orders()] == [("PO-2231", 1)]
    assert run.outcomes.get().result["ordered"] is True
    keys = [
        effect["key"]
        for effect in world.person("ana@example.org", "GET", f"/runs/{run.public_id}/effects").json()["effects"]
    ]
    assert keys == [
        *("offer:PR-4711:v7:S-17", "offer:PR-4711:v7:S-22"),
        *("offer:PR-4711:v8:S-17", "offer:PR-4711:v8:S-22"),
        "order:PR-4711",
    ]
    told = world.timeline()
    assert told.count("run.replanned") == 1
    assert told.index("interrupt.answered") < told.index("run.replanned") < told.index("run.completed")


def test_a_change_while_the_order_waits_takes_its_approval_back(world):
    world.agent("start", "PR-4711")
    world.answer_certificate("ana@example.org")
    world.agent("continue")
    world.change_specification(9)
    world.answer("ben@example.org", "order", verdict="approve")

    world.agent("continue")

    assert world.orders() == []
    assert Interrupt.objects.get(status="waiting").key == "certificate-v9"
    world.answer_certificate("ana@example.org", "certificate-v9")
    world.agent("continue")
    world.answer("ben@example.org", "order", verdict="approve")
    world.agent("continue")
    assert Run.objects.get().status == "completed"
    assert len(world.orders()) == 1


def test_records_that_do_not_answer_hold_the_run_and_nothing_is_ordered(world):
    world.agent("start", "PR-4711")
    Connection.objects.update(base_url="http://127.0.0.1:9")
    world.answer_certificate("ana@example.org")
    assert Run.objects.get().status == "revalidating"
    assert world.agent("continue") == []
    assert world.orders() == []


def test_a_rejected_order_is_not_issued(world):
    world.agent("start", "PR-4711")
    world.answer_certificate("ana@example.org")
    world.agent("continue")
    world.answer("ben@example.org", "order", verdict="reject", message="Too dear.")
    world.agent("continue")
    assert Run.objects.get().outcomes.get().result == {"ordered": False, "why": "Too dear.", "by": "ben@example.org"}
    assert world.orders() == []


def test_an_order_edited_by_the_reviewer_is_issued_as_edited(world):
    world.agent("start", "PR-4711")
    world.answer_certificate("ana@example.org")
    world.agent("continue")
    [order] = world.person("ben@example.org", "GET", "/interrupts?status=waiting").json()["interrupts"]
    arguments = world.person("ben@example.org", "GET", f"/interrupts/{order['id']}").json()["proposal"]["arguments"]
    world.answer("ben@example.org", "order", verdict="edit", arguments=arguments | {"amount": "180000.00"})
    world.agent("continue")
    assert [order["amount"] for order in world.orders()] == ["180000.00"]
