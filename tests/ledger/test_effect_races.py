"""Two at once, on PostgreSQL: threads with connections of their own meet at a barrier, many rounds.

Below the run's lock on purpose: the ledger keeps its promises without it.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.db import connection, transaction

from ledger import in_flight
from ledger.errors import AlreadyResolved, OutcomeUnknown, Refusal
from ledger.models import Effect, EffectReport, Order
from tests.ledger.effect_builders import KEY, LATER, RUN, a_group, a_person, an_effect, intend, order, report, settle
from tests.unguarded import without_triggers

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.postgresql]

ROUNDS = 1_000 if os.environ.get("REVIEWQUEUE_LONG") else 50


def at_once(*verbs: Callable[[], Any]) -> list[Any]:
    """Run the verbs at the same moment, each in its own transaction; return what each came to, refusals included."""
    barrier = threading.Barrier(len(verbs))
    outcomes: list[Any] = [None] * len(verbs)

    def run(place: int, verb: Callable[[], Any]) -> None:
        try:
            with transaction.atomic():
                connection.ensure_connection()
                barrier.wait(timeout=10)
                outcomes[place] = verb()
        except Exception as error:  # noqa: BLE001  whatever it came to is judged by the test
            outcomes[place] = error
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(verbs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    return outcomes


def fresh(status: str = "") -> Effect | None:
    with without_triggers():
        EffectReport.objects.all().delete()
        Order.objects.all().delete()
        Effect.objects.all().delete()
    with transaction.atomic():
        return an_effect(status) if status else None


@pytest.mark.proves(5)
def test_two_workers_that_begin_one_key_perform_once():
    a_group()
    met: Counter[str] = Counter()
    for _ in range(ROUNDS):
        fresh()
        outcomes = at_once(lambda: intend(request_key="a"), lambda: intend(request_key="b"))
        performed = [outcome for outcome in outcomes if not isinstance(outcome, Refusal) and outcome.perform]
        assert len(performed) == 1, outcomes
        assert sum(isinstance(outcome, OutcomeUnknown) for outcome in outcomes) == 1
        assert Effect.objects.count() == 1
        met[performed[0].effect.request_key] += 1
    assert len(met) == 2 or ROUNDS < 50, "the race never went the other way: nothing was raced"


@pytest.mark.proves(5)
def test_one_request_sent_twice_at_once_is_one_attempt():
    a_group()
    for _ in range(ROUNDS):
        fresh()
        outcomes = at_once(*[lambda: intend(request_key="same")] * 3)
        assert [outcome.perform for outcome in outcomes] == [True] * 3
        assert sorted(outcome.new for outcome in outcomes) == [False, False, True]
        assert Effect.objects.get().attempt == 1


@pytest.mark.proves(6)
def test_of_two_owners_who_resolve_at_once_one_is_refused():
    ana, ben = a_person("ana@example.org"), a_person("ben@example.org")
    for _ in range(ROUNDS):
        effect = fresh("unknown")
        outcomes = at_once(
            partial(settle, effect, "applied", person=ana), partial(settle, effect, "failed", person=ben)
        )
        losers = [outcome for outcome in outcomes if isinstance(outcome, AlreadyResolved)]
        assert len(losers) == 1, outcomes
        stands = Effect.objects.get()
        assert losers[0].extra["outcome"] == stands.status
        assert EffectReport.objects.filter(by__startswith="person:").count() == 1


@pytest.mark.proves(5)
def test_two_orders_at_once_are_one():
    ana, ben = a_person("ana@example.org"), a_person("ben@example.org")
    for _ in range(ROUNDS):
        effect = fresh("unknown")
        outcomes = at_once(partial(order, effect, person=ana), partial(order, effect, person=ben))
        assert sum(isinstance(outcome, AlreadyResolved) for outcome in outcomes) == 1, outcomes
        assert Order.objects.count() == 1


@pytest.mark.proves(5)
def test_one_order_lets_one_of_two_workers_perform():
    for _ in range(ROUNDS):
        effect = fresh("unknown")
        with transaction.atomic():
            order(effect)
        outcomes = at_once(lambda: intend(fence=2, request_key="a"), lambda: intend(fence=2, request_key="b"))
        assert sum(not isinstance(outcome, Refusal) and outcome.perform for outcome in outcomes) == 1, outcomes
        assert Effect.objects.get().attempt == 2


def test_a_concurrent_report_and_resolution_are_both_recorded_and_one_counts():
    ana = a_person("ana@example.org")
    for _ in range(ROUNDS):
        effect = fresh("unknown")
        reported, settled = at_once(partial(report, "applied"), partial(settle, effect, "failed", person=ana))
        stands = Effect.objects.get().status
        if isinstance(settled, AlreadyResolved):
            assert (reported.settled, stands) == (True, "applied")
        else:
            assert (reported.contradiction, stands) == (True, "failed")
        assert EffectReport.objects.filter(status="applied").count() == 1


@pytest.mark.proves(6)
def test_a_report_and_the_end_of_the_lease_at_once_leave_the_truth():
    for _ in range(ROUNDS):
        fresh("intended")
        reported, held = at_once(
            partial(report, "applied"),
            lambda: in_flight.mark_lost_unknown(scope=RUN, fence=1, now=LATER, by="system:lease_end"),
        )
        assert reported.settled, reported
        assert Effect.objects.get().status == "applied"
        assert [effect.key for effect in held] in ([], [KEY])


@pytest.mark.proves(6)
def test_a_begin_and_the_end_of_the_lease_at_once_never_leave_a_forgotten_effect():
    a_group()
    for _ in range(ROUNDS):
        fresh("failed")
        Effect.objects.update(retryable=True)
        begun, _ = at_once(
            lambda: intend(request_key="a"),
            lambda: in_flight.mark_lost_unknown(scope=RUN, fence=1, now=LATER, by="system:lease_end"),
        )
        assert begun.perform
        assert Effect.objects.get().status in {"intended", "unknown"}
