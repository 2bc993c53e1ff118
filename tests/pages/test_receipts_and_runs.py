"""Receipts and runs: what was decided and how far it has come, and a run readable from top to bottom."""

from __future__ import annotations

import re

import pytest
from django.urls import reverse

from ledger import clock
from reviewqueue import authority
from reviewqueue import desk as acts
from reviewqueue.gateway import Seen, submit_decision
from reviewqueue.pages.stories import tell
from runs.decisions import Answer
from runs.errors import StaleVersion
from runs.expiry import expire_due_interrupts
from runs.models import Continuation, Decision, Event, Hold, Interrupt, Run
from runs.resuming import claim_continuations
from tests import builders
from tests.pages import desk

pytestmark = pytest.mark.django_db


def decide(interrupt: Interrupt, person, verdict: str = "approve", *, door: str = "page", **said) -> Decision:
    receipt = submit_decision(
        responder=person,
        interrupt_id=interrupt.public_id,
        answer=Answer(verdict=verdict, **said),
        seen=Seen(state_version=interrupt.state_version),
        door=door,
    )
    return receipt.decision


def receipt_of(decision: Decision, person) -> str:
    response = desk.signed_in(person).get(f"/decisions/{decision.public_id}")
    assert response.status_code == 200
    return response.content.decode()


def text(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html[html.index("<main") :]).split())


def test_a_receipt_tells_who_when_what_with_its_digests():
    person, interrupt = desk.lena(), desk.an_order()
    decision = decide(interrupt, person, message="Hours match")
    html = receipt_of(decision, person)
    told = text(html)
    for part in (
        "approved",
        "Lena Brandt",
        "by the page",
        "Hours match",
        "policy approval.action 1",
        "state_version 1",
    ):
        assert part in told
    for exact in (decision.digest, decision.content_digest, decision.permit.digest, decision.public_id):
        assert exact in html
    assert "1 use, until" in told


def test_a_receipt_follows_the_answer_to_the_next_boundary():
    person, interrupt = desk.lena(), desk.an_order()
    decision = decide(interrupt, person, door="api")
    ready = receipt_of(decision, person)
    assert re.search(r'aria-current="step"><b>Ready</b>', ready)
    claim_continuations(
        agent=interrupt.agent,
        code_versions=set(),
        most=1,
        lease_seconds=60,
        request_key="",
        still_may_decide=authority.still_may_decide,
    )
    assert re.search(r'aria-current="step"><b>Taken</b>', receipt_of(decision, person))
    Continuation.objects.update(status="acknowledged", acknowledged_at=clock.now())
    assert 'aria-current="step"' not in receipt_of(decision, person)


def test_a_held_continuation_says_why_and_who_settles_it():
    person, interrupt = desk.lena(), desk.an_order()
    decision = decide(interrupt, person)
    owner = builders.a_group("purchasing-operations")
    Hold.objects.create(run=interrupt.run, kind="unknown_effect", subject="order:7", owner=owner, opened_at=clock.now())
    Run.objects.update(open_holds=1)
    told = text(receipt_of(decision, person))
    assert "held back, see below" in told
    assert "Nobody knows yet whether an outside effect happened" in told
    assert "purchasing-operations settles it" in told
    assert "Unknown outcomes" not in told  # an owner's way to the desk, nobody else's
    person.is_staff = True
    person.save()
    assert reverse("admin:reviewqueue_unknownoutcome_changelist") in receipt_of(decision, person)
    Hold.objects.update(kind="stranded")
    assert reverse("admin:runs_hold_changelist") in receipt_of(decision, person)


def test_a_receipt_leads_to_the_next_wait_that_this_person_may_decide():
    person, interrupt, refund = desk.lena(), desk.an_order(), desk.a_refund(5)
    decision = decide(interrupt, person)
    assert f'href="/interrupts/{refund.public_id}"' in receipt_of(decision, person)
    acts.claim(responder=builders.a_reviewer("ben@company.example", "refunds"), interrupt_id=refund.public_id)
    assert f'href="/interrupts/{refund.public_id}"' not in receipt_of(decision, person)


def test_a_refused_answer_is_seen_by_its_author_alone():
    person, interrupt = desk.lena(), desk.an_order()
    with pytest.raises(StaleVersion):
        submit_decision(
            responder=person,
            interrupt_id=interrupt.public_id,
            answer=Answer(verdict="approve"),
            seen=Seen(state_version=9),
            door="page",
        )
    refused = Decision.objects.get()
    assert "it answered an older version" in text(receipt_of(refused, person)).lower()
    other = desk.signed_in(builders.a_reviewer("ben@company.example"))
    assert other.get(f"/decisions/{refused.public_id}").status_code == 404


def test_a_foreign_receipt_and_a_foreign_run_look_missing():
    person, interrupt = desk.lena(), desk.an_order()
    decision = decide(interrupt, person)
    stranger = desk.signed_in(builders.a_reviewer("zoe@company.example", "elsewhere"))
    assert stranger.get(f"/decisions/{decision.public_id}").status_code == 404
    assert stranger.get(f"/runs/{interrupt.run.public_id}").status_code == 404
    assert interrupt.run.public_id not in stranger.get("/runs").content.decode()


def test_a_run_is_readable_from_top_to_bottom():
    person, interrupt = desk.lena(), desk.an_order()
    acts.claim(responder=person, interrupt_id=interrupt.public_id)
    decide(interrupt, person, message="Hours match")
    told = text(desk.signed_in(person).get(f"/runs/{interrupt.run.public_id}").content.decode())
    story = ["Run started for tomas@company.example", "Asked Engineering, then let its worker go", "You claimed it"]
    places = [told.index(part) for part in [*story, "You approved"]]
    assert places == sorted(places)
    assert "Hours match" in told
    assert "ready Any free worker" in told.replace(". ", " ") or "Any free worker may go on with it." in told
    assert "Issue purchase order to S-17" in told


def test_a_run_that_waits_says_for_whom_and_until_when():
    person, interrupt = desk.lena(), desk.an_order()
    told = text(desk.signed_in(person).get(f"/runs/{interrupt.run.public_id}").content.decode())
    assert "It waits for an answer" in told
    assert "then the run expires" in told


def test_the_starter_sees_the_run_and_the_agents_owner_too():
    interrupt = desk.an_order()
    for person in (
        builders.a_person("tomas@company.example"),
        builders.a_person("olga@company.example", "agent-owners"),
    ):
        client = desk.signed_in(person)
        assert interrupt.run.public_id in client.get("/runs").content.decode()
        assert client.get(f"/runs/{interrupt.run.public_id}").status_code == 200


def test_runs_can_be_narrowed_by_status_and_say_when_there_is_none():
    person, interrupt = desk.lena(), desk.an_order()
    client = desk.signed_in(person)
    assert interrupt.run.public_id in client.get("/runs?status=waiting").content.decode()
    assert "No run that you may see fits this filter" in client.get("/runs?status=failed").content.decode()
    assert interrupt.run.public_id in client.get("/runs?status=%00&after=x").content.decode()


def test_what_was_asked_in_a_queue_one_is_not_in_stays_unsaid():
    started = builders.a_running_run()
    builders.a_queue("secrets")
    waits = [
        builders.a_wait("open", title="Order the hoist"),
        builders.a_wait("hidden", title="The merger", wish={"queue": "secrets"}),
    ]
    builders.suspend_run(started, *waits)
    html = desk.signed_in(desk.lena()).get(f"/runs/{started.run.public_id}").content.decode()
    assert "Order the hoist" in html
    assert "The merger" not in html


def test_a_story_names_the_queue_that_was_asked_then_and_none_where_none_was_noted():
    desk.lena()
    step = {"escalate_to": builders.a_queue("engineering-leads"), "on_expiry": "escalate"}
    builders.a_policy("approval.action", **step)
    interrupt = desk.an_order(wish={"queue": "engineering", "on_expiry": {"do": "escalate"}})
    operator = builders.a_person("op@company.example", "operators")
    builders.move_deadline(interrupt, clock.now())
    assert expire_due_interrupts(limit=10) == 1
    told = text(desk.signed_in(operator).get(f"/runs/{interrupt.run.public_id}").content.decode())
    assert "Asked Engineering, then let its worker go" in told
    assert "Nobody answered in Engineering; now Engineering leads is asked" in told
    asked = Event.objects.get(type="run.suspended")
    asked.refs.pop("queues")  # as it was noted before
    older = tell([asked], reader=operator, waits=[interrupt])
    assert older[0].words == "Asked, then let its worker go"
