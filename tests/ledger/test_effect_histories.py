"""In every order of calls an effect is performed at most once, unless the receiver drops repeats or a person ordered it.

A state machine calls the ledger as workers, lost workers, owners and a sweep do. It counts what was really performed,
which the ledger cannot see.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import transaction
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from ledger import in_flight
from ledger.effects import IntentResult
from ledger.errors import AlreadyResolved, OutcomeUnknown
from ledger.models import Effect, EffectReport, Order
from ledger.states import EffectStatus
from tests.ledger.effect_builders import KEY, NOON, RUN, a_person, intend, order, report, settle
from tests.unguarded import without_triggers

pytestmark = pytest.mark.django_db(transaction=True)

REPEATS = st.sampled_from(["never", "by_key", "harmless"])
OUTCOMES = st.sampled_from(["applied", "failed", "unknown"])


class Histories(RuleBasedStateMachine):
    """One key of one run. ``at_hand``: the attempt that the current worker must perform and has not performed yet."""

    def __init__(self) -> None:
        super().__init__()
        self.minute = 0
        self.fence = 1
        self.requests = 0
        self.repeat: str | None = None
        self.reply_lost = False
        self.at_hand: int | None = None
        self.done: list[int] = []
        self.unreported: dict[int, bool] = {}
        self.failed_retryable: set[int] = set()
        self.orders = 0

    def now(self):
        self.minute += 1
        return NOON + timedelta(minutes=self.minute)

    @property
    def effect(self) -> Effect | None:
        return Effect.objects.filter(scope=RUN, key=KEY).first()

    # --- workers

    @rule(repeat=REPEATS, lost=st.booleans())
    def ask(self, repeat: str, lost: bool) -> None:
        """The worker intends the effect. If the reply is lost, it repeats the request with the same key."""
        if not self.reply_lost:
            self.requests += 1
        self.reply_lost = lost
        before = self.effect
        with transaction.atomic():
            outcome = intend(
                fence=self.fence, repeat=repeat, request_key=f"{self.fence}-{self.requests}", now=self.now()
            )
        self.repeat = self.repeat or repeat
        if isinstance(outcome, OutcomeUnknown):
            self.at_hand = None
            assert self.effect.status == EffectStatus.UNKNOWN
            assert self.repeat == "never"
        elif outcome.perform:
            assert outcome.begun or (before is not None and outcome.effect.attempt == before.attempt)
            self.at_hand = None if lost else outcome.effect.attempt
        else:
            assert outcome.effect.status in {EffectStatus.APPLIED, EffectStatus.FAILED}
        assert isinstance(outcome, IntentResult | OutcomeUnknown)

    @precondition(lambda self: self.at_hand is not None)
    @rule(lands=st.booleans())
    def perform(self, lands: bool) -> None:
        """The call is made and succeeds or not; the worker may never learn which."""
        assert self.at_hand is not None
        if lands:
            self.done.append(self.at_hand)
        self.unreported[self.at_hand] = lands
        self.at_hand = None

    @precondition(lambda self: self.unreported)
    @rule(choose=st.data(), knows=st.booleans(), retryable=st.booleans())
    def report_truthfully(self, choose: st.DataObject, knows: bool, retryable: bool) -> None:
        """A worker reports what it knows, at once or later, with or without its lease."""
        attempt = choose.draw(st.sampled_from(sorted(self.unreported)))
        landed = self.unreported[attempt]
        status = ("applied" if landed else "failed") if knows else "unknown"
        with transaction.atomic():
            reported = report(
                status,
                attempt=attempt,
                retryable=retryable and status == "failed",
                now=self.now(),
                error="" if landed else "no",
            )
        assert not reported.contradiction or self.a_person_resolved_or_ordered_it()
        if knows:
            del self.unreported[attempt]

    def a_person_resolved_or_ordered_it(self) -> bool:
        return EffectReport.objects.filter(by__startswith="person:").exists() or Order.objects.exists()

    @rule()
    def lose_worker(self) -> None:
        """The lease ends: effects in flight become unknown, and a new worker has the next fence."""
        with transaction.atomic():
            in_flight.mark_lost_unknown(scope=RUN, fence=self.fence, now=self.now(), by="system:lease_end")
        self.fence += 1
        self.requests, self.reply_lost = 0, False
        self.at_hand = None

    # --- people, who know what really happened

    @precondition(lambda self: self.effect is not None)
    @rule()
    def settle_truthfully(self) -> None:
        self.refused_or_done(lambda: settle(self.effect, "applied" if self.done else "failed", now=self.now()))

    @precondition(lambda self: self.effect is not None)
    @rule()
    def order_again(self) -> None:
        before = Order.objects.count()
        self.refused_or_done(lambda: order(self.effect, person=a_person("ben@example.org"), now=self.now()))
        self.orders += Order.objects.count() - before

    def refused_or_done(self, verb: Callable[[], object]) -> None:
        with contextlib.suppress(AlreadyResolved, OutcomeUnknown), transaction.atomic():
            verb()

    # --- what always holds

    @invariant()
    def never_twice_without_a_reason(self) -> None:
        if self.repeat in (None, "never"):
            assert len(self.done) <= 1 + self.orders

    @invariant()
    def an_attempt_is_in_flight_or_has_a_report(self) -> None:
        effect = self.effect
        if effect is None:
            return
        assert effect.status in EffectStatus.values
        assert effect.owner_id is not None
        assert Order.objects.filter(used_by_attempt__isnull=True).count() <= 1
        if self.at_hand is not None:
            assert (effect.status, effect.attempt, effect.fence) == ("intended", self.at_hand, self.fence)
        if effect.status != EffectStatus.INTENDED:
            assert EffectReport.objects.filter(effect=effect, status=effect.status).exists()

    @invariant()
    def an_applied_effect_was_performed(self) -> None:
        effect = self.effect
        if effect is not None and effect.status == EffectStatus.APPLIED:
            assert self.done

    def teardown(self) -> None:
        with without_triggers():
            EffectReport.objects.all().delete()
            Order.objects.all().delete()
            Effect.objects.all().delete()


@pytest.mark.proves(5)
def test_no_history_performs_an_effect_twice_without_a_reason():
    run_state_machine_as_test(
        Histories,
        settings=settings(
            max_examples=60,
            stateful_step_count=25,
        ),
    )
