"""Several people approve, by API: a vote's receipt, how far it is for people and for the agent, the answer at the end."""

from __future__ import annotations

import pytest

from tests import builders
from tests.api.calls import a_reviewer_client, a_waiting_interrupt, a_worker, the_approval

pytestmark = pytest.mark.django_db

APPROVE = {"state_version": 1, "verdict": "approve"}


@pytest.fixture
def worker():
    return a_worker()


@pytest.fixture
def people():
    return [a_reviewer_client(builders.a_reviewer(f"{name}@example.org")) for name in ("ana", "ben")]


def test_a_vote_has_a_receipt_and_the_last_one_resumes(worker, people):
    ana, ben = people
    wait, _ = a_waiting_interrupt(worker, the_approval(quorum=2))
    first = ana.post(f"interrupts/{wait}/decisions", APPROVE | {"message": "hours match"})
    assert (first.status, first["status"], first["resume"]) == (201, "counted", None)
    assert first["approvals"] == {"needed": 2, "counted": 1}
    second = ben.post(f"interrupts/{wait}/decisions", APPROVE)
    assert (second["status"], second["resume"], second["approvals"]["counted"]) == ("accepted", "ready", 2)


def test_people_see_who_voted_and_the_agent_only_how_many(worker, people):
    ana, ben = people
    wait, _ = a_waiting_interrupt(worker, the_approval(quorum=2))
    ana.post(f"interrupts/{wait}/decisions", APPROVE)
    assert worker.get(f"interrupts/{wait}")["approvals"] == {"needed": 2, "counted": 1}
    mine, others = (it.get(f"interrupts/{wait}") for it in (ana, ben))
    assert [vote["decided_by"] for vote in others["votes"]] == ["ana@example.org"]
    assert (mine["has_voted"], others["has_voted"]) == (True, False)
    assert (mine["may_decide"], mine["why_not"]["code"], others["may_decide"]) == (False, "already_voted", True)


def test_a_vote_can_be_undone_by_api_until_the_quorum_is_reached(worker, people):
    ana, _ = people
    wait, _ = a_waiting_interrupt(worker, the_approval(quorum=2))
    ana.post(f"interrupts/{wait}/decisions", APPROVE)
    assert ana.post(f"interrupts/{wait}/undo", {}).status == 200
    assert worker.get(f"interrupts/{wait}")["approvals"]["counted"] == 0


def test_the_agent_gets_an_edit_if_a_voter_changed_the_call(worker, people):
    ana, ben = people
    wait, _ = a_waiting_interrupt(worker, the_approval(quorum=2))
    edited = {"supplier": "S-17", "amount": "180000.00"}
    ana.post(f"interrupts/{wait}/decisions", {"state_version": 1, "verdict": "edit", "arguments": edited})
    stale = ben.post(f"interrupts/{wait}/decisions", APPROVE)
    assert (stale.status, stale["code"], stale["state_version"]) == (409, "stale_version", 2)
    ben.post(f"interrupts/{wait}/decisions", {"state_version": 2, "verdict": "approve"})
    [claimed] = worker.post("continuations/claim").body
    answer = claimed["answers"]["order"]
    assert (answer["verdict"], answer["arguments"], answer["decided_by"]) == ("edit", edited, "ben@example.org")
    assert answer["changed"] == [{"path": "/amount", "before": "184000.00", "after": "180000.00"}]


def test_too_many_changed_places_are_listed_as_one(worker, people):
    proposed, approved = (
        {"lines": [{"part": place, "amount": amount} for place in range(120)]} for amount in ("1", "2")
    )
    proposal = {"name": "issue_purchase_order", "arguments": proposed}
    wait, _ = a_waiting_interrupt(worker, the_approval(proposal=proposal))
    people[0].post(f"interrupts/{wait}/decisions", {"state_version": 1, "verdict": "edit", "arguments": approved})
    [claimed] = worker.post("continuations/claim").body
    assert claimed["answers"]["order"]["changed"] == [{"path": "", "before": proposed, "after": approved}]


def test_what_was_added_and_what_was_taken_out_have_one_side_each_and_an_approval_changed_nothing(worker, people):
    proposal = {"name": "issue_purchase_order", "arguments": {"supplier": "S-17", "note": None}}
    wait, _ = a_waiting_interrupt(
        worker, the_approval(proposal=proposal), the_approval(proposal=proposal) | {"key": "same"}
    )
    same = next(it["id"] for it in worker.get("interrupts")["interrupts"] if it["key"] == "same")
    edited = {"supplier": "S-17", "cost_centre": "00123"}
    people[0].post(f"interrupts/{wait}/decisions", {"state_version": 1, "verdict": "edit", "arguments": edited})
    people[0].post(f"interrupts/{same}/decisions", APPROVE)
    [claimed] = worker.post("continuations/claim").body
    assert claimed["answers"]["order"]["changed"] == [
        {"path": "/note", "before": None},
        {"path": "/cost_centre", "after": "00123"},
    ]
    assert claimed["answers"]["same"]["changed"] == []


def test_many_decisions_at_once_count_as_votes(worker, people):
    ana, ben = people
    wait, _ = a_waiting_interrupt(worker, the_approval(quorum=2))
    body = {"decisions": [APPROVE | {"interrupt": wait}]}
    for person, status in ((ana, "counted"), (ben, "accepted")):
        assert person.post("decisions", body)["decisions"][0]["receipt"]["status"] == status


@pytest.mark.parametrize("quorum", [0, 21, "2", 2.0, True])
def test_a_quorum_is_a_whole_number_in_bounds(worker, people, quorum):
    reply = worker.post("asks", the_approval(quorum=quorum))
    assert (reply.status, reply["errors"][0]["pointer"]) == (422, "/quorum")
