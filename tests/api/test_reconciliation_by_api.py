"""Owners resolve outcomes, lift holds and waive facts by API, with the permission and the records of the admin."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.db import transaction

from ledger import clock
from ledger.models import Effect, EffectReport, Order
from runs.holds import open_hold
from runs.locks import lock_run
from runs.models import Event, Fact, Hold, Run
from runs.run_status import save_status
from runs.states import HoldKind
from tests import builders
from tests.api.calls import Caller, Reply, a_reviewer_client, a_started_run, a_waiting_interrupt, a_worker, the_approval

pytestmark = pytest.mark.django_db

RESOLVE = {"resolution": "applied", "attempt": 1, "reason": "The supplier confirmed it.", "evidence": "mail 7"}
OWNERS = "agent-owners"


def a_person(address: str, *groups: str, is_staff: bool = True) -> User:
    person = builders.a_person(address, *groups)
    User.objects.filter(pk=person.pk).update(is_staff=is_staff)
    return person


def an_owner(address: str = "olga@example.org", *groups: str, is_staff: bool = True) -> Caller:
    return a_reviewer_client(a_person(address, *(groups or (OWNERS,)), is_staff=is_staff))


def an_unknown_outcome(worker: Caller, **members) -> str:
    """Return a run with an effect `order` whose outcome is unknown, and which waits to continue."""
    run, lease = a_started_run(worker, **members)
    begun = worker.put(f"runs/{run}/effects/order", {"name": "order", "arguments": {"n": 1}}, Run_Lease=lease)
    told = {"attempt_token": begun["attempt_token"], "status": "unknown"}
    worker.post(f"runs/{run}/effects/order/outcome", told)
    worker.post(f"runs/{run}/lease/release", {"reason": "retry"}, Run_Lease=lease)
    assert worker.get(f"runs/{run}")["status"] == "blocked"
    return run


def a_held_run(worker: Caller, kind: HoldKind, subject: str = "") -> str:
    run, lease = a_started_run(worker)
    worker.post(f"runs/{run}/lease/release", {"reason": "retry"}, Run_Lease=lease)
    with transaction.atomic():
        held = lock_run(Run.objects.get(public_id=run).pk)
        now = clock.now()
        open_hold(held, kind, subject, owner_id=held.agent.owner_id, reason="it failed", now=now)
        save_status(held, now)
    return run


def resolve(owner: Caller, run: str, **members) -> Reply:
    return owner.post(f"runs/{run}/effects/order/resolve", RESOLVE | members)


def test_an_owner_resolves_an_unknown_outcome_and_the_run_continues():
    worker, owner = a_worker(), an_owner()
    run = an_unknown_outcome(worker)
    resolved = resolve(owner, run)
    assert (resolved.status, resolved["status"], resolved["attempt"]) == (200, "applied", 1)
    assert worker.get(f"runs/{run}")["status"] == "revalidating"
    report = EffectReport.objects.latest("id")
    assert (report.by, report.body["reason"], report.body["evidence"]) == (
        "person:olga@example.org",
        RESOLVE["reason"],
        "mail 7",
    )
    assert Event.objects.latest("id").type == "effect.settled"
    again = resolve(owner, run, resolution="failed")
    assert (again.status, again["code"], again["outcome"]) == (409, "already_settled", "applied")


def test_an_owner_orders_an_effect_again():
    worker, owner = a_worker(), an_owner()
    run = an_unknown_outcome(worker)
    assert resolve(owner, run, resolution="repeat", evidence="").status == 200
    order = Order.objects.get()
    assert (order.person.username, order.reason) == ("olga@example.org", RESOLVE["reason"])
    builders.check(worker.get(f"runs/{run}")["continuation"])
    [taken] = worker.post("continuations/claim").body
    begun = worker.put(
        f"runs/{run}/effects/order", {"name": "order", "arguments": {"n": 1}}, Run_Lease=taken["lease"]["token"]
    )
    assert (begun["perform"], begun["attempt"]) == (True, 2)


def test_the_recorded_outcome_of_contradicting_reports_is_confirmed():
    worker, owner = a_worker(), an_owner()
    run, lease = a_started_run(worker)
    begun = worker.put(f"runs/{run}/effects/order", {"name": "order", "arguments": {}}, Run_Lease=lease)
    told = {"attempt_token": begun["attempt_token"], "status": "applied"}
    worker.post(f"runs/{run}/effects/order/outcome", told)
    assert worker.post(f"runs/{run}/effects/order/outcome", told | {"status": "failed"}).status == 202
    body = {"resolution": "recorded_outcome", "evidence": ""}
    assert resolve(owner, run, **body)["status"] == "applied"
    assert not Hold.objects.filter(lifted_at=None).exists()
    assert resolve(owner, run, **body).status == 404


@pytest.mark.parametrize(
    ("members", "status", "code"),
    [
        ({"attempt": 2}, 409, "stale_version"),
        ({"reason": "  "}, 422, "payload_invalid"),
        ({"resolution": "looked"}, 422, "payload_invalid"),
        ({"resolution": "repeat"}, 422, "payload_invalid"),  # with evidence
    ],
)
def test_a_resolution_is_checked(members, status, code):
    owner = an_owner()
    run = an_unknown_outcome(a_worker())
    refused = resolve(owner, run, **members)
    assert (refused.status, refused["code"]) == (status, code)
    assert Effect.objects.get().status == "unknown"


CALLERS = {
    "owner": (200, lambda: an_owner()),
    "operator": (200, lambda: an_owner("otto@example.org", "operators")),
    "owner without access to the admin": (403, lambda: an_owner(is_staff=False)),
    "reviewer of the run": (403, lambda: an_owner("ana@example.org", "engineering-reviewers")),
    "stranger": (404, lambda: an_owner("sam@example.org", "others")),
}


@pytest.mark.parametrize("caller", CALLERS)
def test_only_owners_and_operators_reconcile(caller):
    status, make = CALLERS[caller]
    worker = a_worker()
    resolved = an_unknown_outcome(worker)
    lifted = a_held_run(worker, HoldKind.GAVE_UP)
    fact = {"name": "stock", "value": 3, "check": "worker"}
    _, waived = a_waiting_interrupt(worker, the_approval(facts=[fact]))
    visible = Run.objects.get(public_id=waived).interrupts.get()
    for run in Run.objects.filter(public_id__in=[resolved, lifted]):  # the reviewer can see these runs too
        visible.pk, visible.run, visible.key, visible.public_id = None, run, f"seen-{run.pk}", f"int_{run.pk}"
        visible.status = "answered"
        visible.save()
    person = make()
    calls = [
        (f"runs/{resolved}/effects/order/resolve", RESOLVE),
        (f"runs/{lifted}/holds/lift", {"kind": "gave_up", "reason": "repaired"}),
        (f"runs/{waived}/facts/waive", {"name": "stock", "reason": "known"}),
    ]
    for path, body in calls:
        assert worker.post(path, body).status == 403
        reply = person.post(path, body)
        assert reply.status == status, (path, reply.body)


def test_the_initiator_orders_nothing_again_and_waives_nothing():
    worker, owner = a_worker(), an_owner()
    run = an_unknown_outcome(worker, initiator="olga@example.org")
    assert resolve(owner, run, resolution="repeat", evidence="").status == 403
    assert owner.post(f"runs/{run}/facts/waive", {"name": "stock", "reason": "known"}).status == 403


def test_an_owner_lifts_a_hold_with_a_reason():
    worker, owner = a_worker(), an_owner()
    run = a_held_run(worker, HoldKind.GAVE_UP)
    lifted = owner.post(f"runs/{run}/holds/lift", {"kind": "gave_up", "reason": "the bug is fixed"})
    assert (lifted.status, lifted["status"]) == (200, "ready")
    assert Hold.objects.get().lifted_by == "person:olga@example.org"
    event = Event.objects.latest("id")
    assert (event.type, event.refs["kind"], event.refs["reason"]) == ("hold.lifted", "gave_up", "the bug is fixed")
    assert owner.post(f"runs/{run}/holds/lift", {"kind": "gave_up", "reason": "again"}).status == 404


@pytest.mark.parametrize("kind", ["unknown_effect", "contradiction", "fact_unavailable"])
def test_a_hold_that_a_resolution_lifts_says_which(kind):
    owner = an_owner()
    run = a_held_run(a_worker(), HoldKind(kind), "order")
    refused = owner.post(f"runs/{run}/holds/lift", {"kind": kind, "subject": "order", "reason": "checked"})
    assert (refused.status, refused["errors"][0]["pointer"]) == (422, "/kind")
    assert "POST runs/{id}/" in refused["errors"][0]["message"]


def test_an_effect_is_kept_only_if_its_compensation_failed():
    owner = an_owner()
    run = a_held_run(a_worker(), HoldKind.GAVE_UP)
    body = {"kind": "gave_up", "resolution": "keep_effect", "reason": "checked"}
    refused = owner.post(f"runs/{run}/holds/lift", body)
    assert (refused.status, refused["errors"][0]["pointer"]) == (422, "/resolution")


def test_an_owner_waives_a_fact_that_cannot_be_checked():
    worker, owner = a_worker(), an_owner()
    fact = {"name": "stock", "value": 3, "check": "worker"}
    _, run = a_waiting_interrupt(worker, the_approval(facts=[fact]))
    waived = owner.post(f"runs/{run}/facts/waive", {"name": "stock", "reason": "counted by hand"})
    assert (waived.status, waived["status"]) == (200, "waiting")
    stored = Fact.objects.get()
    assert (stored.waived_by.username, stored.waived_reason) == ("olga@example.org", "counted by hand")
    assert Event.objects.latest("id").type == "fact.waived"
    assert owner.post(f"runs/{run}/facts/waive", {"name": "stock", "reason": "again"}).status == 404
