"""kill -9 during compensation: each effect once, newest first, and every unknown outcome has an owner."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from ledger import clock, compensation
from ledger.effects import EffectDeclaration
from ledger.models import Effect
from ledger.states import CompensateOn
from reviewqueue import permissions, tasks
from runs.models import Hold, Run
from runs.use_cases import (
    claim_continuation,
    control_run,
    reconcile_outcomes,
    release_lease,
    report_effect,
)
from tests import builders, figures
from tests.crashes.kill_points import Point, after, before, kill
from tests.crashes.receiver import Receiver, a_receiver
from tests.races.invariants import breaches

pytestmark = [pytest.mark.postgresql, pytest.mark.django_db(transaction=True)]

KILLS = 10 if os.environ.get("REVIEWQUEUE_LONG") else 1
KEYS = ("first", "second", "third")
POINTS: dict[str, Point] = {
    "ended, nothing offered yet": before("runs.use_cases.end_run", "_offer_compensation"),
    "cancel committed, response lost": after("runs.use_cases.control_run", "cancel_run"),
    "claim written, not committed": after("runs.use_cases.claim_continuation", "_describe_claim"),
    "claim committed, response lost": after("runs.use_cases.claim_continuation", "_claim_next"),
    "undo intended, not committed": after("ledger.effects", "intend_effect"),
    "undo intended, response lost": after("runs.use_cases.begin_effect", "begin_effect"),
    "undo about to be sent": before(__name__, "send"),
    "undo done, not reported": after(__name__, "send"),
    "undo reported, effect not compensated": before("ledger.compensation", "mark_compensated"),
    "effect compensated, not committed": after("ledger.compensation", "record_compensation"),
    "undo committed, response lost": after("runs.use_cases.report_effect", "report_effect"),
}
OUTCOME_UNKNOWN = {"undo intended, response lost", "undo about to be sent", "undo done, not reported"}
ROLLED_BACK = {"undo reported, effect not compensated", "effect compensated, not committed"}


@dataclass(frozen=True, kw_only=True)
class Undone:
    """A run with three effects, and the receiver that counts compensations."""

    run_pk: int
    receiver: Receiver

    @property
    def run(self) -> Run:
        return Run.objects.select_related("agent").get(pk=self.run_pk)

    def name(self, key: str) -> str:
        return f"undo:{key}:{self.run.public_id}"


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with a_receiver() as running:
        yield running


@pytest.mark.proves(5, 6, 15)
@pytest.mark.parametrize("point", POINTS)
def test_compensation_survives_a_kill(point: str, receiver: Receiver):
    for _ in range(KILLS):
        told = a_run_that_acted(receiver)
        kill(lambda told=told: live(told), at=POINTS[point])
        cancel(told)  # the client repeats its call

        settled = recover(told)

        assert settled == (1 if point in OUTCOME_UNKNOWN | ROLLED_BACK else 0)
        assert told.run.status == "cancelled"
        assert [told.receiver.arrived(told.name(key)) for key in KEYS] == [1, 1, 1]
        rows = Effect.objects.filter(scope=told.run.public_id)
        assert {row.status for row in rows.filter(undoes=None)} == {"compensated"}
        last_first = rows.exclude(undoes=None).order_by("id").values_list("undoes__key", flat=True)
        assert list(last_first) == list(reversed(KEYS))
        assert breaches(told.run_pk) == []
        figures.count("kills during compensation", "each effect once, newest first")
        figures.count("kills that left a compensation unknown", "on hold, owned, resolved", n=settled)


def a_run_that_acted(receiver: Receiver) -> Undone:
    started = builders.a_running_run()
    run, lease = started.run, started.lease
    assert lease is not None
    for key in KEYS:
        words = {"agent": run.agent, "run_id": run.public_id, "key": key}
        declared = EffectDeclaration(
            compensation={"name": "undo_it", "arguments": key}, compensate_on=tuple(CompensateOn.values)
        )
        begun = builders.begin_effect(
            still_may_decide=permissions.still_may_decide,
            **words,
            token=lease.token,
            name="do_it",
            arguments=key,
            declared=declared,
        )
        assert begun.attempt_token is not None
        report_effect.report_effect(**words, attempt_token=begun.attempt_token, status="applied")
    words = {"agent": run.agent, "run_id": run.public_id, "token": lease.token}
    release_lease.hand_back_run(**words, reason="retry", detail="")
    return Undone(run_pk=run.pk, receiver=receiver)


def live(told: Undone) -> None:
    cancel(told)
    take_all_back(told)


def cancel(told: Undone) -> None:
    run_id = told.run.public_id
    control_run.cancel_run(run_id=run_id, actor="person:ana@example.org", reason="", check=lambda run: None)


def take_all_back(told: Undone) -> None:
    """Do what a worker does with a claim: every listed compensation, in order."""
    claimed = claim_continuation.claim_continuations(
        claim_continuation.ClaimRequest(
            agent=told.run.agent, code_versions=set(), lease_seconds=60, still_may_decide=lambda decision: True
        ),
        limit=1,
    )
    for undone in claimed[0].undone if claimed else []:
        words = {"agent": told.run.agent, "run_id": told.run.public_id, "key": compensation.compensation_key(undone)}
        begun = builders.begin_effect(
            still_may_decide=permissions.still_may_decide, **words, token=claimed[0].lease.token, name="undo_it"
        )
        if begun.perform:
            send(told, undone.key)
            assert begun.attempt_token is not None
            report_effect.report_effect(**words, attempt_token=begun.attempt_token, status="applied")


def send(told: Undone, key: str) -> str:
    return told.receiver.order(told.name(key))


def recover(told: Undone) -> int:
    """The lease lapses, the owner of an unknown outcome asks the receiver, and another worker compensates the rest."""
    if told.run.lease_until is not None:
        builders.end_lease_now(told.run, clock.now())
    tasks.sweep()
    owner = builders.a_person("owner@example.org", "agent-owners")
    unknown = Effect.objects.filter(scope=told.run.public_id, status="unknown").select_related("undoes")
    for undo in unknown:
        assert undo.undoes is not None
        assert Hold.objects.filter(run=told.run_pk, kind="unknown_effect", subject=undo.key, lifted_at=None).exists()
        if told.receiver.arrived(told.name(undo.undoes.key)):
            reconcile_outcomes.resolve_unknown_outcome(
                effect_id=undo.pk, outcome="applied", person=owner, reason="they have it"
            )
        else:
            reconcile_outcomes.order_effect_again(effect_id=undo.pk, person=owner, reason="they have nothing")
    take_all_back(told)
    return len(unknown)
