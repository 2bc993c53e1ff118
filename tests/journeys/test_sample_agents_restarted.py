"""The demo's agents after a restart: earlier decisions do not count, so they ask again and perform nothing before."""

from __future__ import annotations

import subprocess
import sys

import httpx
import pytest

from ledger.models import Effect
from reviewqueue import tasks
from reviewqueue.demo.setup import BUYER, a_mail, with_itself_as_state
from reviewqueue.management.commands.demo import purchase_status
from runs.models import Interrupt, Run
from runs.use_cases.control_run import cancel_run, restart_run
from runs.use_cases.reconcile_outcomes import resolve_unknown_outcome
from tests import builders
from tests.journeys.test_purchase_agent import DEMO, World, world

__all__ = ["world"]

pytestmark = pytest.mark.django_db(transaction=True)


def start_again() -> None:
    """Cancel the run and restart it, as its owner does on its page."""
    run = Run.objects.get()
    owner = builders.a_person("own@example.org", "agent-owners")
    if run.status == "waiting":
        cancel_run(run_id=run.public_id, actor="person:own@example.org", reason="", check=lambda _: None)
    restart_run(run_id=run.public_id, person=owner, reason="once more", check=lambda _: None)
    tasks.sweep()


def the_short_agent(world: World) -> str:
    command = [sys.executable, str(DEMO / "support_agent.py")]
    done = subprocess.run(command, env=world.environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def asked_for_a_mail(world: World) -> None:
    key = {"Authorization": f"Bearer {world.environment['REVIEW_QUEUE_KEY']}"}
    wait = a_mail() | {"queue": "purchasing"}
    httpx.post(f"{world.queue}/api/v1/asks", headers=key, json=with_itself_as_state(wait)).raise_for_status()


def test_the_support_agent_asks_again_and_a_rejection_ends_its_run(world):
    asked_for_a_mail(world)
    first = Interrupt.objects.get()
    start_again()
    assert "asked again" in the_short_agent(world)
    again = Interrupt.objects.get(status="waiting")
    assert (again.key, again.title, again.proposal) == (first.key, first.title, first.proposal)
    assert Run.objects.get().status == "waiting"
    assert the_short_agent(world) == ""
    world.answer("ben@example.org", "mail-delay-49", verdict="reject", message="Wrong date.")
    assert "reject" in the_short_agent(world)
    assert Run.objects.get().outcomes.get(epoch=2).result == {"answers": {"mail-delay-49": "reject"}, "done": []}


def test_the_support_agent_fails_when_changes_are_requested(world):
    asked_for_a_mail(world)
    world.answer("ben@example.org", "mail-delay-49", verdict="respond", message="Which Thursday?")
    assert "respond" in the_short_agent(world)
    assert Run.objects.get().status == "failed"


def test_the_purchase_agent_asks_again_after_a_restart(world):
    world.agent("start", "PR-4711")
    start_again()
    assert "asked for certificate" in world.agent("continue")[-1]
    world.answer_certificate("ana@example.org")
    assert "asked for order" in world.agent("continue")[-1]
    start_again()
    assert "asked for order" in world.agent("continue")[-1]
    world.answer("ben@example.org", "order", verdict="approve")
    assert "finished" in world.agent("continue")[-1]
    assert [order["asked"] for order in world.orders()] == [1]


def test_a_later_start_of_the_demo_says_what_is_still_true():
    def last_output() -> str:
        return " ".join(purchase_status("http://127.0.0.1:1/specification"))

    assert "waits for a certificate for PR-4711" in last_output(), "before the agent has begun"
    started = builders.a_running_run(key="PR-4711", agent=builders.an_agent(BUYER))
    interrupt = builders.a_waiting_interrupt(builders.a_wait("certificate"), started=started)
    assert "waits for a certificate for PR-4711" in last_output()
    builders.decide(interrupt, builders.a_reviewer())
    assert last_output().startswith("  PR-4711 is ready.")
    cancel_run(run_id=started.run.public_id, actor="person:own@example.org", reason="", check=lambda _: None)
    assert "has ended (cancelled)" in last_output()
    assert "certificate" not in last_output()


def test_the_purchase_agent_hands_back_a_run_that_is_not_its_own(world):
    """It died on such a run before, at each claim."""
    key = {"Authorization": f"Bearer {world.environment['REVIEW_QUEUE_KEY']}"}
    foreign = {"key": "other-1", "title": "Something else", "code_version": "purchase-agent-1", "lease_seconds": 0}
    httpx.post(f"{world.queue}/api/v1/runs", headers=key, json=foreign).raise_for_status()
    assert "handed back Something else" in world.agent("continue")[-1]
    assert Run.objects.get(key="other-1").status == "ready"
    world.agent("start", "PR-4711")
    world.answer_certificate("ana@example.org")
    assert "asked for order" in world.agent("continue")[-1]


def test_the_support_agent_hands_back_a_run_that_is_not_its_own(world):
    key = {"Authorization": f"Bearer {world.environment['REVIEW_QUEUE_KEY']}"}
    foreign = {"key": "other-1", "title": "Something else", "lease_seconds": 0}
    httpx.post(f"{world.queue}/api/v1/runs", headers=key, json=foreign).raise_for_status()
    assert "handed back" in the_short_agent(world)
    assert Run.objects.get(key="other-1").status == "ready"


@pytest.mark.parametrize(("outcome", "status"), [("applied", "completed"), ("failed", "failed")])
def test_the_support_agent_follows_the_resolution_of_an_unknown_outcome(world, outcome, status):
    asked_for_a_mail(world)
    world.answer("ben@example.org", "mail-delay-49", verdict="approve")
    key = {"Authorization": f"Bearer {world.environment['REVIEW_QUEUE_KEY']}"}
    [claimed] = httpx.post(f"{world.queue}/api/v1/continuations/claim", headers=key, json={}).json()
    run, lease = claimed["run"], {"Run-Lease": claimed["lease"]["token"]}
    permit = claimed["permits"][0]
    address = f"{world.queue}/api/v1/runs/{run['id']}/effects/{permit['name']}:{run['key']}"
    begun = httpx.put(address, headers=key | lease, json={"name": permit["name"], "permit": permit["id"]}).json()
    told = {"attempt_token": begun["attempt_token"], "status": "unknown"}
    httpx.post(f"{address}/outcome", headers=key, json=told).raise_for_status()
    released = {"reason": "retry"}
    httpx.post(f"{world.queue}/api/v1/runs/{run['id']}/lease/release", headers=key | lease, json=released)
    owner = builders.a_person("own@example.org", "agent-owners")
    effect = Effect.objects.get(key=f"{permit['name']}:{run['key']}")
    resolve_unknown_outcome(effect_id=effect.pk, outcome=outcome, person=owner, reason="checked")
    tasks.sweep()
    the_short_agent(world)
    assert Run.objects.get().status == status
