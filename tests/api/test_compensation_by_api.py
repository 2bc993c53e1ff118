"""Compensation by API, and the resolution of compensations that failed or are unknown in the reconciliation admin."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse

from ledger.models import Effect
from runs.models import Hold, Run
from tests.api.calls import (
    Caller,
    a_reviewer_client,
    a_started_run,
    a_waiting_interrupt,
    a_worker,
    the_approval,
    the_suspend,
)
from tests.builders import a_person, a_policy
from tests.reviewqueue.test_holds_admin import page_of, signed_in, staff

pytestmark = pytest.mark.django_db

BACK = {"name": "release_hoist", "arguments": {"day": 1}}


def an_applied(worker: Caller, run: str, lease: str, key: str, **members: Any) -> None:
    wanted = {"name": "reserve_hoist", "arguments": {"key": key}, "compensation": BACK, **members}
    begun = worker.put(f"runs/{run}/effects/{key}", wanted, Run_Lease=lease)
    applied(worker, run, key, begun["attempt_token"], receipt={"of": key})


def applied(worker: Caller, run: str, key: str, token: str, **told: Any) -> None:
    told = {"attempt_token": token, "status": "applied", **told}
    assert worker.post(f"runs/{run}/effects/{key}/outcome", told).status == 200


def a_failed_run(worker: Caller, *keys: str) -> str:
    run, lease = a_started_run(worker)
    for key in keys:
        an_applied(worker, run, lease, key)
    assert worker.post(f"runs/{run}/fail", {"error": "no crew"}, Run_Lease=lease)["status"] == "cancelling"
    return run


def test_a_failed_run_is_compensated_newest_effect_first():
    worker = a_worker()
    run = a_failed_run(worker, "first", "second")
    [taken] = worker.post("continuations/claim", {"code_version": "another"}).body
    assert (taken["kind"], taken["cause"], taken["answers"]) == ("compensate", "fail", {})
    lease = taken["lease"]["token"]
    assert [back["undoes"] for back in taken["compensations"]] == ["second", "first"]
    assert [back["receipt"] for back in taken["compensations"]] == [{"of": "second"}, {"of": "first"}]
    newer, older = (back["key"] for back in taken["compensations"])

    too_early = worker.put(f"runs/{run}/effects/{older}", {"name": "release_hoist"}, Run_Lease=lease)
    assert (too_early.status, too_early["code"], too_early["effect"]) == (409, "not_ready", "second")
    for key in (newer, older):
        begun = worker.put(f"runs/{run}/effects/{key}", {"name": "release_hoist"}, Run_Lease=lease)
        assert (begun.status, begun["perform"], begun["arguments"]) == (201, True, {"day": 1})
        applied(worker, run, key, begun["attempt_token"])

    assert worker.get(f"runs/{run}")["status"] == "failed"
    ledger = worker.get(f"runs/{run}/effects")["effects"]
    assert [(row["status"], row["undoes"]) for row in ledger] == [
        ("compensated", None),
        ("compensated", None),
        ("applied", "second"),
        ("applied", "first"),
    ]


def test_a_resuming_claim_compensates_nothing():
    worker = a_worker()
    worker.post("runs", {"key": "PR-1", "title": "A hoist", "lease_seconds": 0})
    [taken] = worker.post("continuations/claim", {"code_version": "1"}).body
    assert (taken["kind"], taken["compensations"]) == ("resume", [])


@pytest.mark.parametrize(
    ("compensation", "pointer"),
    [
        ({"name": "x"}, "/compensation/arguments"),
        ({"arguments": 1}, "/compensation/name"),
        ({**BACK, "on": []}, "/compensation/on"),
        ({**BACK, "on": ["complete"]}, "/compensation/on/0"),
        ({**BACK, "when": 1}, "/compensation/when"),
        ("release_hoist", "/compensation"),
    ],
)
def test_what_is_no_compensation_is_refused_where_it_is_wrong(compensation: Any, pointer: str):
    worker = a_worker()
    run, lease = a_started_run(worker)
    wanted = {"name": "reserve_hoist", "arguments": 1, "compensation": compensation}
    refused = worker.put(f"runs/{run}/effects/k", wanted, Run_Lease=lease)
    assert (refused.status, refused["errors"][0]["pointer"]) == (422, pointer)


def test_on_narrows_it():
    worker = a_worker()
    run, lease = a_started_run(worker)
    an_applied(worker, run, lease, "k", compensation={**BACK, "on": ["cancel", "cancel"]})
    assert worker.post(f"runs/{run}/fail", {"error": 1}, Run_Lease=lease)["status"] == "failed"


def test_in_the_admin_an_owner_waives_it_or_orders_it_again():
    worker = a_worker()
    run = a_failed_run(worker, "first", "second")
    olga = signed_in(staff("olga@example.org", "agent-owners"))

    def fails() -> Hold:
        [taken] = worker.post("continuations/claim", {}).body
        key = taken["compensations"][0]["key"]
        asked = worker.put(f"runs/{run}/effects/{key}", {"name": "release_hoist"}, Run_Lease=taken["lease"]["token"])
        told = {"attempt_token": asked["attempt_token"], "status": "failed", "error": "too late"}
        worker.post(f"runs/{run}/effects/{key}/outcome", told)
        return Hold.objects.get(lifted_at=None)

    hold = fails()
    html = olga.get(page_of(hold)).content.decode()
    for text in ("undo_failed", "too late", "Compensate again", "Keep the effect"):
        assert text in html
    olga.post(page_of(hold), {"reason": "they open at nine", "resolution": "undo"})
    hold = fails()
    html = olga.post(page_of(hold), {"reason": "we keep it", "resolution": "stays"}, follow=True).content.decode()
    assert "The effect is kept" in html
    html = olga.post(page_of(hold), {"reason": "again", "resolution": "stays"}, follow=True).content.decode()
    assert "Keep the effect" not in html
    [taken] = worker.post("continuations/claim", {}).body
    assert [back["undoes"] for back in taken["compensations"]] == ["first"]


def test_the_run_page_shows_what_is_compensated(client):
    worker = a_worker()
    run = a_failed_run(worker, "first")
    [taken] = worker.post("continuations/claim", {}).body
    key = taken["compensations"][0]["key"]
    begun = worker.put(f"runs/{run}/effects/{key}", {"name": "release_hoist"}, Run_Lease=taken["lease"]["token"])
    applied(worker, run, key, begun["attempt_token"])
    client.force_login(a_person("olga@example.org", "agent-owners"))
    html = client.get(f"/runs/{Run.objects.get().public_id}").content.decode()
    assert "compensates" in html
    assert "An effect was compensated" in html


def test_a_person_cancels_twice_and_it_is_offered_once():
    worker, ops = a_worker(), a_reviewer_client(a_person("ops@example.org", "operators"))
    run, lease = a_started_run(worker)
    an_applied(worker, run, lease, "k")
    worker.post(f"runs/{run}/lease/release", {"reason": "retry"}, Run_Lease=lease)
    for _ in range(2):
        assert ops.post(f"runs/{run}/cancel", {"reason": "no"})["status"] == "cancelling"
    assert len(worker.post("continuations/claim", {"max": 5}).body) == 1


def test_a_rejection_cancels_and_compensates_the_run_if_the_policy_says_so():
    a_policy("approval.action", on_reject="cancel")
    worker, ana = a_worker(), a_reviewer_client()
    run, lease = a_started_run(worker)
    an_applied(worker, run, lease, "for-a-no", compensation={**BACK, "on": ["reject"]})
    an_applied(worker, run, lease, "for-a-cancel", compensation={**BACK, "on": ["cancel"]})
    asked = worker.post(f"runs/{run}/interrupts", the_suspend(the_approval(), after=0), Run_Lease=lease)
    interrupt = asked["interrupts"][0]["id"]
    receipt = ana.post(f"interrupts/{interrupt}/decisions", {"state_version": 1, "verdict": "reject"})
    assert (receipt.status, receipt["status"], receipt["resume"]) == (201, "accepted", None)
    assert worker.get(f"runs/{run}")["status"] == "cancelling"
    [taken] = worker.post("continuations/claim", {}).body
    assert (taken["kind"], taken["cause"]) == ("compensate", "reject")
    assert [back["undoes"] for back in taken["compensations"]] == ["for-a-no"]


def test_otherwise_a_no_is_an_answer_like_any_other():
    worker, ana = a_worker(), a_reviewer_client()
    interrupt, _ = a_waiting_interrupt(worker, the_approval())
    ana.post(f"interrupts/{interrupt}/decisions", {"state_version": 1, "verdict": "reject"})
    [taken] = worker.post("continuations/claim", {}).body
    assert (taken["kind"], taken["answers"]["order"]["verdict"]) == ("resume", "reject")


def test_an_unknown_compensation_is_resolved_or_ordered_again_in_the_admin():
    worker = a_worker()
    run = a_failed_run(worker, "first")
    [taken] = worker.post("continuations/claim", {}).body
    key = taken["compensations"][0]["key"]
    asked = worker.put(f"runs/{run}/effects/{key}", {"name": "release_hoist"}, Run_Lease=taken["lease"]["token"])
    told = {"attempt_token": asked["attempt_token"], "status": "unknown"}
    worker.post(f"runs/{run}/effects/{key}/outcome", told)
    assert worker.post("continuations/claim", {}).body == []
    undo = Effect.objects.get(key=key)
    olga = signed_in(staff("olga@example.org", "agent-owners"))
    page = reverse("admin:ledger_effect_change", args=[undo.pk])
    assert 'value="again"' in olga.get(page).content.decode()
    olga.post(page, {"resolution": "again", "reason": "they lost it", "evidence": "", "attempt": 1})
    [taken] = worker.post("continuations/claim", {}).body
    begun = worker.put(f"runs/{run}/effects/{key}", {"name": "release_hoist"}, Run_Lease=taken["lease"]["token"])
    assert (begun["perform"], begun["attempt"]) == (True, 2)
    applied(worker, run, key, begun["attempt_token"])
    assert worker.get(f"runs/{run}")["status"] == "failed"
