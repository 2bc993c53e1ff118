"""Which effects each query of a run returns: of this run only, by status, by declared end, by who ordered what."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ledger import effect_queries, effects, in_flight, row_digests
from ledger.models import Effect
from ledger.states import InFlight
from tests.ledger.effect_builders import LATER, NOON, RUN, a_person, an_effect, intend, order, report

pytestmark = pytest.mark.django_db

OTHER = "run_other"
SECOND = timedelta(seconds=1)


def undone_on(*ends: str) -> effects.EffectDeclaration:
    return effects.EffectDeclaration(compensation={"name": "cancel_order", "arguments": {}}, compensate_on=ends)


def keys(found: list[Effect]) -> list[str]:
    return [effect.key for effect in found]


def an_undo(of: Effect, status: str = "intended", **declared: object) -> Effect:
    key = f"undo:{of.public_id}:1"
    intend(key=key, scope=of.scope, undoes=of, name="cancel_order", arguments={}, **declared)
    if status == "unknown":
        in_flight.mark_lost_unknown(scope=of.scope, fence=1, now=NOON, by="system:test")
    elif status != "intended":
        report(status, key=key, scope=of.scope)
    return Effect.objects.get(key=key)


def one_of_each(scope: str) -> None:
    for status in ("intended", "applied", "failed", "unknown", "compensated"):
        if status != "intended":
            an_effect(status, key=f"{scope}:{status}", scope=scope, fence=2)
    an_effect("intended", key=f"{scope}:intended", scope=scope, fence=3)


def test_each_query_returns_one_run_and_its_statuses():
    one_of_each(RUN)
    one_of_each(OTHER)
    assert keys(effect_queries.list_effects_in_flight(RUN)) == [f"{RUN}:intended"]
    assert effect_queries.keys_in_flight(RUN) == {f"{RUN}:intended"}
    assert keys(effect_queries.list_open_effects(RUN)) == [f"{RUN}:unknown", f"{RUN}:intended"]
    assert keys(effect_queries.list_effects_for_restart(RUN)) == [f"{RUN}:failed", f"{RUN}:compensated"]
    assert effect_queries.keys_preventing_completion(RUN) == [f"{RUN}:intended", f"{RUN}:unknown"]
    assert keys(effect_queries.list_effects_to_resolve(RUN)) == [f"{RUN}:unknown", f"{RUN}:intended"]
    assert [effect_queries.any_open_effect(scope) for scope in (RUN, "run_none")] == [True, False]
    assert [effect_queries.any_effect_begun_under(RUN, fence) for fence in (2, 3, 4)] == [True, True, False]
    assert effect_queries.count_effects_by_status([RUN]) == {
        RUN: dict.fromkeys(["intended", "applied", "failed", "unknown", "compensated"], 1)
    }


def test_what_was_compensated_since_a_moment_is_named_without_what_changed_otherwise():
    one_of_each(RUN)
    one_of_each(OTHER)
    Effect.objects.update(changed_at=NOON)
    assert effect_queries.keys_compensated_since(RUN, NOON - SECOND) == [f"{RUN}:compensated"]
    assert effect_queries.keys_compensated_since(RUN, NOON) == []


def test_an_effect_that_failed_or_began_before_a_moment_does_not_count_as_begun_since():
    an_effect("applied", key="before", now=NOON)
    an_effect("failed", key="failed", now=LATER)
    consulted = effect_queries.read_effects_for_claim(RUN)
    for read in (consulted, None):
        assert effect_queries.any_effect_begun_since(RUN, NOON, consulted=read)
        assert not effect_queries.any_effect_begun_since(RUN, NOON + SECOND, consulted=read)
    assert consulted.is_whole


def test_more_effects_than_a_worker_reads_are_not_the_whole(monkeypatch):
    for number in range(3):
        an_effect("applied", key=f"order:{number}")
    for most, whole in ((3, True), (2, False)):
        monkeypatch.setattr(effect_queries, "MAX_EFFECTS_OF_CLAIM", most)
        effect_queries._newest_of_a_run.forget()
        consulted = effect_queries.read_effects_for_claim(RUN)
        assert (consulted.is_whole, keys(consulted.effects)) == (whole, ["order:0", "order:1", "order:2"][-most:])
    effect_queries._newest_of_a_run.forget()


def test_what_a_cancel_compensates_is_counted_by_its_declared_ends():
    an_effect("applied", key="on cancel", declared=undone_on("cancel", "fail"))
    an_effect("applied", key="on failure", declared=undone_on("fail"))
    an_effect("applied", key="never")
    an_effect("failed", key="failed", declared=undone_on("cancel"))
    undone = an_effect("applied", key="undone", declared=undone_on("cancel"))
    an_undo(undone, "applied")
    counts = effect_queries.count_effects(RUN)
    assert (counts.applied, counts.compensated_on_cancel, counts.total) == (4, 2, 6)
    Effect.objects.filter(key="on cancel").update(undo_waived_by=a_person())
    assert effect_queries.count_effects(RUN).compensated_on_cancel == 1
    assert effect_queries.count_effects("run_none") == effect_queries.EffectCounts(
        statuses={}, applied=0, compensated_on_cancel=0
    )


def test_only_harmless_effects_or_those_with_a_waived_compensation_need_no_owner():
    an_effect("intended", key="harmless", repeat="harmless")
    an_effect("unknown", key="abandoned", declared=effects.EffectDeclaration(in_flight=InFlight.ABANDON))
    undo = undone_on("cancel")
    an_effect(
        "unknown",
        key="abandoned, to be undone",
        declared=effects.EffectDeclaration(
            in_flight=InFlight.ABANDON, compensation=undo.compensation, compensate_on=undo.compensate_on
        ),
    )
    an_effect("unknown", key="unknown")
    an_effect("intended", key="abandoned, under way", declared=effects.EffectDeclaration(in_flight=InFlight.ABANDON))
    assert sorted(keys(effect_queries.list_effects_to_resolve(RUN))) == [
        "abandoned, to be undone",
        "abandoned, under way",
        "unknown",
    ]


@pytest.mark.parametrize(
    ("status", "repeat", "ordered", "asks"),
    [
        ("unknown", "never", False, True),
        ("unknown", "never", True, False),
        ("unknown", "by_key", False, False),
        ("intended", "never", False, True),
        ("intended", "by_key", False, True),
    ],
)
def test_an_unknown_compensation_that_is_safe_to_repeat_needs_no_owner(status, repeat, ordered, asks):
    undo = an_undo(an_effect("applied", declared=undone_on("cancel")), status, repeat=repeat)
    if ordered:
        order(undo)
    assert keys(effect_queries.list_effects_to_resolve(RUN)) == ([undo.key] if asks else [])


def test_unstable_keys_count_from_after_a_moment_and_without_failures_and_undos():
    unstable = effects.EffectDeclaration(stable_key=False)
    an_effect("applied", key="before", declared=unstable, now=NOON)
    an_effect("applied", key="applied", declared=unstable, now=LATER)
    an_effect("failed", key="failed", declared=unstable, now=LATER)
    an_effect("applied", key="stable", now=LATER)
    an_effect("applied", key="of another run", declared=unstable, now=LATER, scope=OTHER)
    undone = an_effect("applied", key="undone", declared=undone_on("cancel"), now=NOON)
    an_undo(undone, "applied", declared=unstable, now=LATER)
    assert keys(effect_queries.list_unstable_effects(RUN, since=NOON)) == ["applied"]


def test_a_lost_lease_makes_only_effects_in_flight_of_its_own_run_unknown():
    for scope in (RUN, OTHER):
        intend(scope=scope, key=f"{scope}:lost", fence=1)
        intend(scope=scope, key=f"{scope}:newer", fence=2)
        intend(scope=scope, key=f"{scope}:awaited", fence=1)
        an_effect("applied", scope=scope, key=f"{scope}:applied", fence=1)
    in_flight.await_effects(scope=RUN, settle_by={f"{RUN}:awaited": LATER})
    left = in_flight.mark_lost_unknown(scope=RUN, fence=1, now=NOON, by="system:test")
    assert keys(left) == [f"{RUN}:lost"]
    statuses = dict(Effect.objects.values_list("key", "status"))
    assert [key for key, status in statuses.items() if status == "unknown"] == [f"{RUN}:lost"]


def test_runs_with_overdue_effects_are_listed_the_longest_first_and_once():
    for scope, key, until in ((RUN, "one", LATER), (RUN, "two", NOON), (OTHER, "three", NOON + SECOND)):
        intend(scope=scope, key=key)
        in_flight.await_effects(scope=scope, settle_by={key: until})
    assert effect_queries.list_runs_with_overdue_effects(before=LATER, limit=9) == [RUN, OTHER]
    assert effect_queries.list_runs_with_overdue_effects(before=NOON, limit=9) == [RUN]
    assert effect_queries.list_runs_with_overdue_effects(before=LATER, limit=1) == [RUN]
    assert effect_queries.list_runs_with_overdue_effects(before=NOON - SECOND, limit=9) == []


# --- what a report does -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stands", "told", "receipt", "contradicts"),
    [
        ("applied", "failed", None, True),
        ("failed", "applied", {"order": "PO-1"}, True),
        ("applied", "applied", {"order": "PO-9"}, True),
        ("applied", "applied", None, False),
        ("applied", "unknown", None, False),
        ("compensated", "failed", None, True),
        ("compensated", "applied", {"order": "PO-2231"}, False),
        ("failed", "failed", {"order": "PO-9"}, False),
        ("unknown", "applied", {"order": "PO-9"}, False),
    ],
)
def test_which_report_contradicts_the_recorded_outcome(stands, told, receipt, contradicts):
    an_effect(stands)
    reported = report(told, receipt=receipt, error="again")
    assert reported.contradiction is contradicts


def test_a_report_is_covered_by_the_next_event_of_its_run():
    an_effect("intended")
    row_digests.forget_written_rows()
    report("applied")
    assert any("report" in part for part in row_digests.list_unrecorded_parts()), row_digests.list_unrecorded_parts()
    row_digests.forget_written_rows()


def test_only_what_does_harm_twice_and_is_not_let_be_holds_a_run():
    held = {
        (repeat, declared): in_flight.holds_when_unknown(Effect(repeat=repeat, in_flight=declared))
        for repeat in ("never", "by_key", "harmless")
        for declared in (InFlight.AWAIT, InFlight.ABANDON)
    }
    assert [case for case, holds in held.items() if holds] == [("never", InFlight.AWAIT)]
    assert set(held.values()) == {True, False}
