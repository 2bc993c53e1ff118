"""Probes of unknown outcomes: what they settle, and what they never settle."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from ledger import clock
from ledger.effects import EffectDeclaration
from ledger.errors import AlreadyResolved, PayloadInvalid
from ledger.models import Effect, EffectReport
from ledger.probes import MAX_PROBE_TRIES, ProbeResult
from runs.models import Connection, Event, Run
from runs.use_cases import expire, reconcile_outcomes, reconcile_probes
from tests import builders
from tests.runs.leased_run_builders import OWNERS, a_leased_run, a_person, begin, report
from tests.runs.test_compensation import claim, fresh, holds, statuses

pytestmark = pytest.mark.django_db

PROBE = {
    "connection": "erp",
    "path": "/orders/{key}",
    "pointer": "/state",
    "applied": ["booked", 1],
    "failed": ["refused"],
    "conclusive": False,
}


def an_unknown(*, age: timedelta = timedelta(hours=1), **probe: Any) -> Run:
    """A run whose worker was lost with an effect under way that has a probe."""
    run = a_leased_run()
    builders.a_connection("erp", run.agent)
    begin(run, key="order", declared=EffectDeclaration(probe=PROBE | probe))
    Effect.objects.update(begun_at=clock.now() - age)
    builders.end_lease_now(run, clock.now())
    expire.release_lapsed_leases(limit=5)
    return run


def look(**found: Any) -> bool:
    Effect.objects.exclude(probe_due_at=None).update(probe_due_at=clock.now())
    effect = Effect.objects.get(key="order")
    return reconcile_probes.probe_effect(effect_pk=effect.pk, look=lambda probe: ProbeResult(**found))


def test_a_probe_that_finds_the_declared_value_settles_it_and_the_run_continues():
    run = an_unknown()
    assert holds(run) == [("unknown_effect", "order")]
    assert reconcile_probes.has_due_probes()
    assert look(value="booked", reply={"state": "booked", "order": "PO-1"})
    effect = Effect.objects.get()
    assert (effect.status, effect.receipt, holds(run)) == ("applied", {"state": "booked", "order": "PO-1"}, [])
    for continuation_id in expire.list_due_revalidations(limit=5):
        builders.check(continuation_id)
    assert [row.status for row in claim(run).effects] == ["applied"]
    assert Event.objects.filter(type="effect.settled", actor="system:probe").count() == 1
    assert not reconcile_probes.has_due_probes()


def test_equality_is_that_of_digests():
    an_unknown()
    assert look(value=Decimal("1.0"), reply=None)


def test_what_was_declared_as_not_done_may_be_tried_again_under_its_key():
    run = an_unknown()
    assert look(value="refused", reply={"state": "refused"})
    effect = Effect.objects.get()
    assert (effect.status, effect.retryable, effect.receipt) == ("failed", True, None)
    assert "means that it did not happen" in effect.error
    for continuation_id in expire.list_due_revalidations(limit=5):
        builders.check(continuation_id)
    begun = begin(fresh(run), key="order", token=claim(run).lease.token)
    assert (begun.perform, begun.effect.attempt) == (True, 2)
    assert Effect.objects.get().probe_tries == 0


@pytest.mark.proves(6)
@pytest.mark.parametrize(
    "found",
    [
        {"value": "pending"},
        {"value": None},
        {"value": True},
        {"value": "Booked"},
        {"value": ["booked"]},
        {"trouble": "No server answers at the address."},
        {"not_found": True},
    ],
    ids=str,
)
def test_an_ambiguous_reply_never_settles(found):
    run = an_unknown()
    assert not look(**found)
    assert (statuses(run), holds(run)) == ({"order": "unknown"}, [("unknown_effect", "order")])
    said = EffectReport.objects.filter(by="system:probe").get()
    assert (said.status, said.body["probe"]) == ("unknown", 1)
    assert said.body["reason"]


def test_a_value_that_means_both_means_nothing():
    run = an_unknown(failed=["booked"])
    assert not look(value="booked")
    assert statuses(run) == {"order": "unknown"}


def test_not_found_is_an_answer_only_where_it_was_declared_one_and_after_some_time():
    an_unknown(conclusive=True, age=timedelta(minutes=4))
    assert not look(not_found=True)
    Effect.objects.update(begun_at=clock.now() - timedelta(minutes=6))
    assert look(not_found=True)
    assert Effect.objects.get().status == "failed"


@pytest.mark.proves(6, 21)
def test_it_is_tried_so_often_and_then_stays_with_its_owner():
    run = an_unknown()
    dues = []
    for _ in range(MAX_PROBE_TRIES):
        assert not look(value="pending")
        dues.append(Effect.objects.get().probe_due_at)
    assert dues[-1] is None
    assert all(due is not None for due in dues[:-1])
    assert not reconcile_probes.has_due_probes()
    assert not look(value="booked")
    assert statuses(run) == {"order": "unknown"}
    assert EffectReport.objects.filter(by="system:probe").count() == MAX_PROBE_TRIES


def test_a_probe_that_fails_is_counted_and_the_others_continue():
    an_unknown()

    def breaks(probe: reconcile_probes.Probe) -> ProbeResult:
        raise RuntimeError("broken")

    assert reconcile_probes.probe_due_effects(limit=5, seconds=5, look=breaks) == 0
    effect = Effect.objects.get()
    assert effect.probe_tries == 1
    assert effect.probe_due_at > clock.now()


def test_two_looks_at_once_count_once_and_a_person_may_be_first():
    run = an_unknown()
    effect = Effect.objects.get()
    first = reconcile_probes.begin_probe(effect_pk=effect.pk)
    assert reconcile_probes.begin_probe(effect_pk=effect.pk) is None
    Effect.objects.update(probe_due_at=clock.now())
    second = reconcile_probes.begin_probe(effect_pk=effect.pk)
    assert not reconcile_probes.finish_probe(probe=first, looked=ProbeResult(value="booked"))
    ana = a_person("ana@example.org", OWNERS)
    reconcile_outcomes.resolve_unknown_outcome(effect_id=effect.pk, outcome="failed", person=ana, reason="asked them")
    assert not reconcile_probes.finish_probe(probe=second, looked=ProbeResult(value="booked"))
    assert statuses(run) == {"order": "failed"}
    with pytest.raises(AlreadyResolved):
        reconcile_outcomes.resolve_unknown_outcome(effect_id=effect.pk, outcome="applied", person=ana, reason="again")


def test_a_late_report_against_it_is_a_contradiction():
    run = an_unknown()
    assert look(value="booked", reply={})
    assert report(run, "failed", key="order", error="never sent").contradiction
    assert holds(run) == [("contradiction", "order")]


def test_a_connection_that_is_gone_settles_nothing():
    run = an_unknown()
    Connection.objects.all().delete()
    assert not look(value="booked")
    assert "connection" in EffectReport.objects.get(by="system:probe").body["reason"]
    assert statuses(run) == {"order": "unknown"}


def test_a_probe_names_a_connection_of_its_agent():
    run = a_leased_run()
    builders.a_connection("erp", builders.an_agent("another"))
    with pytest.raises(PayloadInvalid) as refused:
        begin(run, key="order", declared=EffectDeclaration(probe=PROBE))
    assert refused.value.errors[0].pointer == "/probe/connection"


def test_without_a_probe_nothing_is_looked_up():
    run = a_leased_run()
    begin(run, key="order")
    report(run, "unknown", key="order")
    assert not reconcile_probes.has_due_probes()
    with_one = a_leased_run()
    builders.a_connection("erp", with_one.agent)
    begin(with_one, key="other", declared=EffectDeclaration(probe=PROBE))
    report(with_one, "unknown", key="other")
    assert reconcile_probes.has_due_probes()
