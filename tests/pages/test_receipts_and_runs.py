"""Receipts and runs: what was decided and how far it has come, and a run readable from top to bottom."""

from __future__ import annotations

import re

import pytest
from django.urls import reverse

from ledger import clock
from ledger.attempt_tokens import make_attempt_token
from reviewqueue import permissions
from reviewqueue import reviewer_actions as acts
from reviewqueue.pages.runs.timeline_text import timeline_entries
from reviewqueue.resume_gateway import ShownVersion, submit_decision
from runs.decisions import Answer
from runs.errors import StaleVersion
from runs.models import Continuation, Decision, Event, Halt, Hold, Interrupt, Permit, Run
from runs.use_cases.claim_continuation import ClaimRequest, claim_continuations
from runs.use_cases.expire import expire_due_interrupts
from runs.use_cases.hold_after_restore import hold_after_restore
from tests import builders
from tests.pages import desk
from tests.runs.leased_run_builders import begin, report
from tests.unguarded import without_triggers

pytestmark = pytest.mark.django_db


def decide(interrupt: Interrupt, person, verdict: str = "approve", *, door: str = "page", **said) -> Decision:
    receipt = submit_decision(
        responder=person,
        interrupt_id=interrupt.public_id,
        answer=Answer(verdict=verdict, **said),
        seen=ShownVersion(state_version=interrupt.state_version),
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
        "on the page",
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
    assert re.search(r'aria-current="step">\s*<b>Ready</b>', ready)
    claim_continuations(
        ClaimRequest(
            agent=interrupt.agent, code_versions=set(), lease_seconds=60, still_may_decide=permissions.still_may_decide
        ),
        limit=1,
    )
    assert re.search(r'aria-current="step">\s*<b>Claimed</b>', receipt_of(decision, person))
    Continuation.objects.update(status="acknowledged", acknowledged_at=clock.now())
    assert 'aria-current="step"' not in receipt_of(decision, person)


def test_a_held_continuation_says_why_and_who_settles_it():
    person, interrupt = desk.lena(), desk.an_order()
    decision = decide(interrupt, person)
    owner = builders.a_group("purchasing-operations")
    Hold.objects.create(run=interrupt.run, kind="unknown_effect", subject="order:7", owner=owner, opened_at=clock.now())
    Run.objects.update(open_holds=1)
    told = text(receipt_of(decision, person))
    assert "on hold, see below" in told
    assert "An effect has an unknown outcome" in told
    assert "purchasing-operations resolves it" in told
    assert "Unknown outcomes" not in told  # only owners get the link to reconciliation
    person.is_staff = True
    person.save()
    assert reverse("admin:reviewqueue_unknownoutcome_changelist") in receipt_of(decision, person)
    Hold.objects.update(kind="stranded")
    assert reverse("admin:runs_hold_changelist") in receipt_of(decision, person)


def test_a_decided_request_shows_the_answer_that_was_given():
    person = desk.lena()
    interrupt = desk.a_question({"type": "object", "properties": {"colour": {"enum": ["red", "green"]}, "n": {}}})
    client = desk.signed_in(person)
    form = desk.form_of(client, interrupt, verdict="answer", act="answer", **{"input.colour": "1", "input.n": "1.50"})
    assert desk.post(client, interrupt, form).status_code in (200, 302)
    for reader in (person, builders.a_person("ines@company.example", "engineering-reviewers")):
        page = text(desk.signed_in(reader).get(f"/interrupts/{interrupt.public_id}").content.decode())
        shown = page[page.index("This request was decided") :]
        assert "green" in shown
        assert "1.50" in shown


def test_a_decided_request_shows_the_call_as_it_was_edited():
    person = desk.lena()
    order = desk.an_order(proposal={"name": "issue_order", "arguments": {"supplier": "S-17", "amount": "10.00"}})
    decide(order, person, "edit", arguments={"supplier": "S-99", "amount": "10.00"}, message="cheaper")
    page = text(desk.signed_in(person).get(f"/interrupts/{order.public_id}").content.decode())
    shown = page[page.index("This request was decided") :]
    assert "S-99" in shown[: shown.index("cheaper")]


def test_a_receipt_leads_to_the_next_wait_that_this_person_may_decide():
    person, interrupt, refund = desk.lena(), desk.an_order(), desk.a_refund(5)
    decision = decide(interrupt, person)
    assert f'href="/interrupts/{refund.public_id}"' in receipt_of(decision, person)
    acts.claim_request(responder=builders.a_reviewer("ben@company.example", "refunds"), interrupt_id=refund.public_id)
    assert f'href="/interrupts/{refund.public_id}"' not in receipt_of(decision, person)


def test_a_refused_answer_is_seen_by_its_author_alone():
    person, interrupt = desk.lena(), desk.an_order()
    with pytest.raises(StaleVersion):
        submit_decision(
            responder=person,
            interrupt_id=interrupt.public_id,
            answer=Answer(verdict="approve"),
            seen=ShownVersion(state_version=9),
            door="page",
        )
    refused = Decision.objects.get()
    assert "it was for an older version" in text(receipt_of(refused, person)).lower()
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
    acts.claim_request(responder=person, interrupt_id=interrupt.public_id)
    decide(interrupt, person, message="Hours match")
    told = text(desk.signed_in(person).get(f"/runs/{interrupt.run.public_id}").content.decode())
    story = [
        "Run started for tomas@company.example",
        "Sent a request to Engineering; worker released",
        "You claimed the request",
    ]
    places = [told.index(part) for part in [*story, "You approved"]]
    assert places == sorted(places)
    assert "Hours match" in told
    assert "Any worker can claim the run and continue it." in told
    assert "Issue purchase order to S-17" in told


def test_leases_are_counted_by_who_held_the_run_also_after_a_backup_was_restored():
    person, interrupt = desk.lena(), desk.an_order()
    hold_after_restore()
    page = desk.signed_in(person).get(f"/runs/{interrupt.run.public_id}").content.decode()
    assert "none; 1 lease so far" in text(page)


def test_a_run_that_was_claimed_and_lost_has_had_two_leases():
    person, interrupt = builders.a_reviewer(), builders.a_waiting_interrupt()
    builders.decide(interrupt, person)
    assert len(builders.claim(interrupt.run.agent)) == 1
    hold_after_restore()
    page = desk.signed_in(person).get(f"/runs/{interrupt.run.public_id}").content.decode()
    assert "none; 2 leases so far" in text(page)


def test_a_run_that_waits_says_for_whom_and_until_when():
    person, interrupt = desk.lena(), desk.an_order()
    told = text(desk.signed_in(person).get(f"/runs/{interrupt.run.public_id}").content.decode())
    assert "The run waits for an answer" in told
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
    assert "No run that you can see matches the filters" in client.get("/runs?status=failed").content.decode()
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


def test_the_timeline_names_the_queue_of_that_time_or_none():
    desk.lena()
    step = {"escalate_to": builders.a_queue("engineering-leads"), "on_expiry": "escalate"}
    builders.a_policy("approval.action", **step)
    interrupt = desk.an_order(wish={"queue": "engineering", "on_expiry": {"do": "escalate"}})
    operator = builders.a_person("op@company.example", "operators")
    builders.move_deadline(interrupt, clock.now())
    assert expire_due_interrupts(limit=10) == 1
    told = text(desk.signed_in(operator).get(f"/runs/{interrupt.run.public_id}").content.decode())
    assert "Sent a request to Engineering; worker released" in told
    assert "Escalated from Engineering to Engineering leads: no answer in time" in told
    asked = Event.objects.get(type="run.suspended")
    asked.refs.pop("queues")  # as it was noted before
    older = timeline_entries([asked], reader=operator, waits=[interrupt])
    assert older[0].words == "Sent a request; worker released"


def test_a_receipt_tells_that_the_agent_is_halted_and_what_the_answer_waits_for():
    person, interrupt = desk.lena(), desk.an_order()
    decision = decide(interrupt, person, door="api")
    before = receipt_of(decision, person)
    so_far = re.search(r"so_far=([^\"]+)", before)[1]
    Halt.objects.create(
        agent=interrupt.agent, halted_at=clock.now(), halted_by="person:ola@company.example", reason="Wrong prices."
    )
    told = text(receipt_of(decision, person))
    assert "is halted" not in before
    assert "Agent purchase-requests is halted. ola@company.example halted it" in told
    assert "Wrong prices." in told
    assert "once the halt of its agent is lifted" in told
    asked_again = desk.signed_in(person).get(
        f"/decisions/{decision.public_id}?so_far={so_far}", headers={"HX-Request": "true"}
    )
    assert asked_again.status_code == 200  # an open receipt hears of it


def test_a_receipt_tells_that_what_it_allowed_was_carried_out_also_after_the_run_is_done():
    person, interrupt = desk.lena(), desk.an_order()
    decision = decide(interrupt, person, door="api")
    assert "1 use, until" in text(receipt_of(decision, person))
    builders.claim(interrupt.agent)
    run = Run.objects.get()
    call = interrupt.proposal
    begin(run, key="order:1", **call, permit=decision.permit.public_id)
    assert "The effect has begun: order:1 intended" in text(receipt_of(decision, person))
    report(run, key="order:1", attempt_token=make_attempt_token(run.public_id, "order:1", 1))
    told = text(receipt_of(decision, person))
    assert "The effect was applied: order:1 applied" in told
    assert "Permit used for order:1 applied" in told
    Permit.objects.update(void_at=clock.now(), void_reason="the run is completed")
    told = text(receipt_of(decision, person))
    assert "Permit used for order:1 applied" in told
    assert "1 use, until" not in told


def test_a_permit_of_an_answer_that_counts_no_more_is_void_and_one_past_its_time_was_not_used():
    person, interrupt = desk.lena(), desk.an_order()
    decision = decide(interrupt, person)
    with without_triggers():
        Permit.objects.update(valid_until=clock.now())
    assert "not used; it expired" in text(receipt_of(decision, person))
    acts.undo_decision(responder=person, interrupt_id=interrupt.public_id)
    told = text(receipt_of(decision, person))
    assert "Permit void since" in told
    Permit.objects.update(void_at=None)
    told = text(receipt_of(decision, person))
    assert "Permit void: the decision is undone" in told
    assert "1 use, until" not in told
