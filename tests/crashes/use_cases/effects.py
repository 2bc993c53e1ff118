"""Scenes of an effect: begun, reported, unknown, probed, resolved by its owner, ordered again, compensated."""

from __future__ import annotations

from datetime import timedelta

from ledger import clock
from ledger.models import Effect
from ledger.probes import ProbeResult
from runs.models import Hold, Run
from runs.use_cases import expire, reconcile_outcomes, reconcile_probes, suspend
from tests import builders
from tests.crashes.use_cases import Act, verb
from tests.crashes.use_cases.workers import an_answered_wait
from tests.runs.leased_run_builders import OWNERS, a_leased_run, a_person, begin, report
from tests.runs.test_compensation import a_cancelled_run, begin_undo, claim, report_undo
from tests.runs.test_probes import an_unknown


def an_owner() -> dict[str, object]:
    return {"person": a_person("olga@example.org", OWNERS), "reason": "I looked"}


def the_effect(key: str = "order") -> int:
    found: int = Effect.objects.get(key=key).pk
    return found


def a_hold(kind: str) -> int:
    found: int = Hold.objects.get(kind=kind, lifted_at=None).pk
    return found


def lost_with_an_effect(key: str = "order") -> Run:
    run = a_leased_run()
    begin(run, key=key)
    builders.end_lease_now(run, clock.now())
    expire.release_lapsed_leases(limit=5)
    return run


# --- begun and reported -----------------------------------------------------------------------------------------------


@verb("runs.use_cases.begin_effect.begin_effect")
def an_effect_is_begun_under_its_permit() -> Act:
    interrupt = an_answered_wait()
    builders.a_rule(agent=interrupt.agent)
    [claimed] = builders.claim(interrupt.agent)
    [permit] = claimed.permits
    words = {"token": claimed.lease.token, "permit": permit.public_id, "request_key": "the-intent"}
    return lambda: begin(claimed.run, **builders.CALL, **words)


@verb("runs.use_cases.begin_effect.begin_effect", says="approval_lost")
def an_effect_is_refused_whose_approver_lost_the_permission() -> Act:
    interrupt = an_answered_wait()
    [claimed] = builders.claim(interrupt.agent)
    [permit] = claimed.permits
    builders.a_reviewer().groups.clear()
    return lambda: begin(claimed.run, **builders.CALL, token=claimed.lease.token, permit=permit.public_id)


@verb("runs.use_cases.begin_effect.begin_effect", says="in_doubt")
def an_effect_under_way_is_requested_again_and_becomes_unknown() -> Act:
    run = a_leased_run()
    begin(run, key="order", name="order_it")
    return lambda: begin(run, key="order", name="order_it")


@verb("runs.use_cases.begin_effect.begin_effect")
def a_failed_effect_is_tried_again() -> Act:
    run = a_leased_run()
    begin(run, key="order", name="order_it")
    report(run, "failed", key="order", error="busy", retryable=True)
    return lambda: begin(run, key="order", name="order_it", request_key="the-second-try")


@verb("runs.use_cases.report_effect.report_effect")
def an_effect_is_reported_as_applied() -> Act:
    run = a_leased_run()
    begin(run, key="order", name="order_it")
    return lambda: report(run, key="order")


@verb("runs.use_cases.report_effect.report_effect")
def the_outcome_of_a_lost_worker_arrives() -> Act:
    run = lost_with_an_effect()
    return lambda: report(run, key="order")


@verb("runs.use_cases.report_effect.report_effect")
def a_report_contradicts_the_recorded_outcome() -> Act:
    run = a_leased_run()
    begin(run, key="order", name="order_it")
    report(run, key="order")
    return lambda: report(run, "failed", key="order", error="it came back")


# --- unknown outcomes -----------------------------------------------------------------------------------------------


@verb("runs.use_cases.expire._mark_overdue_unknown")
def an_awaited_outcome_is_overdue() -> Act:
    started = builders.a_running_run()
    begin(Run.objects.select_related("agent").get(pk=started.run.pk), key="slow", name="ship_it")
    soon = clock.now() + timedelta(hours=1)
    pending = [suspend.PendingEffect(key="slow", settle_by=soon)]
    builders.suspend_run(started, builders.a_wait(), pending=pending)
    Effect.objects.update(settle_by=clock.now())
    return lambda: expire.mark_overdue_effects_unknown(limit=10)


@verb("runs.use_cases.reconcile_probes.begin_probe")
def a_probe_is_begun() -> Act:
    an_unknown()
    Effect.objects.update(probe_due_at=clock.now())
    effect_pk = the_effect()
    return lambda: reconcile_probes.begin_probe(effect_pk=effect_pk)


@verb("runs.use_cases.reconcile_probes.finish_probe")
def a_probe_settles_an_unknown_outcome() -> Act:
    an_unknown()
    Effect.objects.update(probe_due_at=clock.now())
    probe = reconcile_probes.begin_probe(effect_pk=the_effect())
    assert probe is not None
    return lambda: reconcile_probes.finish_probe(
        probe=probe, looked=ProbeResult(value="booked", reply={"state": "booked"})
    )


@verb("runs.use_cases.reconcile_outcomes.resolve_unknown_outcome", then="already_settled")
def an_owner_resolves_an_unknown_outcome() -> Act:
    lost_with_an_effect()
    words = {"effect_id": the_effect(), "outcome": "applied", **an_owner()}
    return lambda: reconcile_outcomes.resolve_unknown_outcome(**words)


@verb("runs.use_cases.reconcile_outcomes.order_effect_again", then="already_settled")
def an_owner_orders_an_effect_again() -> Act:
    lost_with_an_effect()
    words = {"effect_id": the_effect(), **an_owner()}
    return lambda: reconcile_outcomes.order_effect_again(**words)


@verb("runs.use_cases.reconcile_outcomes.confirm_recorded_outcome", then="not_found")
def an_owner_closes_a_contradiction() -> Act:
    run = a_leased_run()
    begin(run, key="order", name="order_it")
    report(run, key="order")
    report(run, "failed", key="order")
    words = {"effect_id": the_effect(), **an_owner()}
    return lambda: reconcile_outcomes.confirm_recorded_outcome(**words)


# --- compensation -------------------------------------------------------------------------------------------------------


@verb("runs.use_cases.begin_effect.begin_effect")
def a_compensation_is_begun() -> Act:
    claimed = claim(a_cancelled_run("first", "second"))
    return lambda: begin_undo(claimed, "second", request_key="the-undo")


@verb("runs.use_cases.report_effect.report_effect")
def the_last_compensation_is_reported_and_ends_the_run() -> Act:
    run = a_cancelled_run("first")
    begin_undo(claim(run), "first")
    return lambda: report_undo(run, "first")


@verb("runs.use_cases.claim_continuation._claim_next")
def a_worker_claims_compensations() -> Act:
    agent = a_cancelled_run("first").agent
    return lambda: builders.claim(agent, request_key="the-claim")


@verb("runs.use_cases.reconcile_outcomes.retry_held_run", then="not_found")
def an_owner_retries_a_failed_compensation() -> Act:
    run = a_cancelled_run("first")
    begin_undo(claim(run), "first")
    report_undo(run, "first", "failed", error="busy")
    words = {"hold_id": a_hold("undo_failed"), **an_owner()}
    return lambda: reconcile_outcomes.retry_held_run(**words)


@verb("runs.use_cases.reconcile_outcomes.waive_compensation", then="not_found")
def an_owner_waives_a_compensation() -> Act:
    run = a_cancelled_run("first", "second")
    begin_undo(claim(run), "second")
    report_undo(run, "second", "failed", error="it was delivered")
    words = {"hold_id": a_hold("undo_failed"), **an_owner()}
    return lambda: reconcile_outcomes.waive_compensation(**words)
