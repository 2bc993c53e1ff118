"""The evidence equals the database: a history of real use cases, gathered and checked."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection

from ledger.models import Effect
from reviewqueue import permissions
from runs.use_cases import complete_run, report_effect
from tests import builders
from tests.nemesis import checker
from tests.nemesis.evidence import Database, Truth, gather
from tests.nemesis.verdicts import BROKEN, HOLDS, Evidence

pytestmark = [pytest.mark.postgresql, pytest.mark.django_db]


def rows(statement: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchall()


def a_history() -> Database:
    interrupt = builders.a_waiting_interrupt()
    builders.decide(interrupt, builders.a_reviewer())
    [claimed] = builders.claim(interrupt.agent)
    words = {"agent": interrupt.agent, "run_id": claimed.run.public_id}
    call = {"name": builders.CALL["name"], "arguments": builders.CALL["arguments"]}
    begun = builders.begin_effect(
        still_may_decide=permissions.still_may_decide, **words, token=claimed.lease.token, key="order", **call
    )
    report_effect.report_effect(**words, key="order", attempt_token=begun.attempt_token, status="applied")
    complete_run.complete_run(**words, token=claimed.lease.token, result=None)
    return gather(rows)


def judged(database: Database, times: list[float]) -> dict[int, str]:
    [run] = database.runs
    truth = Truth(done={f"{run.id}/order": times}, messages={})
    told = checker.judge(Evidence(calls=[], database=database, truth=truth))
    return {verdict.promise: verdict.verdict for verdict in told}


def test_a_history_of_real_use_cases_holds():
    database = a_history()
    assert set(judged(database, [1.0]).values()) == {HOLDS}
    [effect], [wait], [decision] = database.effects, database.interrupts, database.decisions
    assert (effect.key, effect.status, effect.orders, wait.status, decision.by_a_person) == (
        "order",
        "applied",
        0,
        "answered",
        True,
    )
    assert sorted(point.number for point in database.checkpoints) == [0, 1]
    assert "effect.begun" in {event.type for event in database.events}
    assert {event.effect for event in database.events} == {"", "order"}


def test_what_the_receiver_counted_is_held_against_it():
    assert judged(a_history(), [1.0, 2.0])[5] == BROKEN


def test_a_rule_of_the_database_that_is_broken_is_found():
    a_history()
    Effect.objects.update(status="intended")
    database = gather(rows)
    assert [words.partition(": ")[2] for words in database.breaches] == [
        "an effect under way that no live lease began",
        "a run that ended with an effect in the open",
    ]
