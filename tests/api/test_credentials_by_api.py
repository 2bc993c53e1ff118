"""Credentials by API alone: what a claim says of them, and what a report of one that is not valid is answered."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.calls import a_reviewer_client, a_started_run, a_worker, the_approval, the_suspend

pytestmark = [pytest.mark.django_db, pytest.mark.proves(14)]

TOKEN = {"name": "token", "value": "2026-01-31", "kind": "credential", "check": "worker"}


def test_a_worker_learns_of_an_expired_credential_renews_it_and_acts():
    worker, ana = a_worker(), a_reviewer_client()
    run, lease = a_started_run(worker)
    facts = [TOKEN, {"name": "stock", "value": 7}]
    suspend = the_suspend(the_approval(), checkpoint={"step": "ask", "state": 1, "facts": facts})
    [asked] = worker.post(f"runs/{run}/interrupts", suspend, Run_Lease=lease)["interrupts"]
    ana.post(f"interrupts/{asked['id']}/decisions", {"state_version": 1, "verdict": "approve"})
    [taken] = worker.post("continuations/claim", {}).body
    assert [(fact["name"], fact["kind"], fact["valid"]) for fact in taken["facts"]] == [
        ("token", "credential", False),
        ("stock", "value", None),
    ]
    lease = taken["lease"]["token"]
    permit = taken["permits"][0]["id"]
    wanted = {"name": "issue_purchase_order", "permit": permit}

    def report(value: Any) -> Any:
        return worker.post(f"runs/{run}/facts", {"facts": [{"name": "token", "value": value}]}, Run_Lease=lease)

    expired = report({"valid_until": "2026-02-01T00:00:00Z"})
    assert (expired.status, expired["control"]) == (200, "refresh")
    assert expired["changed"] == [
        {"name": "token", "value": "2026-01-31", "now": {"valid_until": "2026-02-01T00:00:00Z"}}
    ]
    refused = worker.put(f"runs/{run}/effects/order", wanted, Run_Lease=lease)
    assert (refused.status, refused["code"], refused["facts"]) == (409, "facts_unchecked", ["token"])
    unreadable = report("soon")
    assert (unreadable.status, unreadable["errors"][0]["pointer"]) == (422, "/facts/0/value")

    renewed = report("2999-01-01")
    assert (renewed["control"], renewed["changed"]) == ("continue", [])
    assert worker.put(f"runs/{run}/effects/order", wanted, Run_Lease=lease)["perform"] is True


@pytest.mark.parametrize("value", [7, "LT-1", ["2999-01-01"], {"until": "2999-01-01"}])
def test_a_credential_that_states_no_validity_is_refused_at_its_pointer(value: Any):
    worker = a_worker()
    run, lease = a_started_run(worker)
    body = {"after": 0, "step": "s", "state": {}, "facts": [{"name": "stock", "value": 7}, TOKEN | {"value": value}]}
    refused = worker.post(f"runs/{run}/checkpoints", body, Run_Lease=lease)
    assert (refused.status, refused["errors"][0]["pointer"]) == (422, "/facts/1/value")
    wait = the_approval() | {"facts": [TOKEN | {"value": value}]}
    refused = worker.post("asks", wait)
    assert (refused.status, refused["errors"][0]["pointer"]) == (422, "/facts/0/value")
