"""In every order of actions the invariants hold after each one, and every history ends.

Actions of ``histories.RunHistory`` are chosen at random. The rows are checked as after a race, and the calls by what
really happened at the receivers. `manage.py test --seed N` sets the seed, `--seeds M` runs that many seeds, `--long`
runs more and longer histories.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, Phase, note, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from ledger.models import Effect
from reviewqueue.operations.doctor.records import find_changed_records
from runs import kill_switch
from runs.models import Run
from runs.run_status import compute_status
from runs.use_cases import control_run
from tests import figures
from tests.races.invariants import breaches
from tests.runs.histories import CALLS, HANDS_BACK, RunHistory, refused

pytestmark = [pytest.mark.django_db, pytest.mark.proves(3, 4, 5, 6, 9, 12, 15, 16)]

LONG = bool(os.environ.get("REVIEWQUEUE_LONG"))
HISTORIES, MOVES = (1500, 60) if LONG else (40, 30)

WHICH = st.integers(0, 3)
OFTEN_NOT = st.sampled_from([False, False, False, True])
KINDS = st.lists(
    st.sampled_from(["approval", "approval", "approval", "input", "event", "timer"]), min_size=1, max_size=2
)
VERDICTS = st.sampled_from(["approve", "approve", "approve", "edit", "reject", "respond"])


def when(asked: Callable[[Histories], object]) -> Callable[[Any], Any]:
    """Restrict a rule to states in which it has an effect, so that random choices are not wasted."""
    return precondition(lambda machine: bool(asked(machine)))


def is_held(machine: Histories) -> bool:
    return machine.run.lease_until is not None and not machine.run.ended_at


class Histories(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.kept_apart = transaction.atomic()  # each history begins with the same rows
        self.kept_apart._from_testcase = True  # the use cases open their own transactions in it
        self.kept_apart.__enter__()
        self.begin_again()

    def begin_again(self) -> None:
        self.history = RunHistory()
        self.run = self.history.run

    def do(self, move: Any, *values: Any, **named: Any) -> None:
        code = refused(move, *values, **named)
        note(f"    {move.__name__}: {code or 'done'}")
        self.run = self.history.run

    # --- workers

    @rule(
        key=st.sampled_from(["order", "order", "letter"]),
        verdict=VERDICTS,
        who=WHICH,
        door=st.sampled_from(["api", "page"]),
        quorum=st.sampled_from([1, 1, 2]),
        on_change=st.sampled_from(["", "replan", "renew"]),
    )
    def go_on(self, key: str, verdict: str, who: int, door: str, quorum: int, on_change: str) -> None:
        """Take the next regular step of the run, so that histories reach far."""
        history, run = self.history, self.run
        if run.ended_at:
            return
        if run.lease_until and run.ending:
            self.undo(lost=False, lands=True)
        elif run.lease_until and (key == "letter" or run.permits.filter(void_at=None).exists()):
            self.begin(key=key, again=False, lost=False, acts=True)
        elif run.lease_until:
            kinds = ["approval", "approval"] if who == 3 else ["approval"]
            self.do(history.suspend, 0, kinds, "all", "cancel", quorum, on_change)
        elif run.open_waits:
            self.do(history.answer, 0, who, verdict, stale=False, late=False, door=door)
        elif run.open_continuation == "checking":
            self.do(history.check)
        elif run.open_continuation == "ready":
            self.do(history.undo_time_is_over)
            self.do(history.claim)

    @when(is_held)
    @rule(what=st.sampled_from(["commit", "heartbeat", "complete", "fail", *HANDS_BACK]), is_sure=st.booleans())
    def work(self, what: str, is_sure: bool) -> None:
        if what in HANDS_BACK:
            self.do(self.history.hand_back, 0, what)
        elif is_sure or what in {"commit", "heartbeat"}:
            self.do(getattr(self.history, what), 0)

    @when(is_held)
    @rule(
        kinds=KINDS,
        resume_when=st.sampled_from(["all", "any"]),
        do=st.sampled_from(["cancel", "fail", "resume"]),
        quorum=st.sampled_from([1, 1, 2]),
        on_change=st.sampled_from(["", "replan", "renew"]),
    )
    def suspend(self, **asked: Any) -> None:
        self.do(self.history.suspend, 0, **asked)

    @when(lambda it: len(it.history.leases) > 1 or not it.run.lease_until)
    @rule(lease=st.integers(0, 2), write=st.sampled_from(["commit", "heartbeat", "complete", "fail"]))
    def wake_too_late(self, lease: int, write: str) -> None:
        """A lost worker writes with a lease that is not the current one."""
        lost = 1 + lease % (len(self.history.leases) - 1) if self.run.lease_until else lease
        self.do(getattr(self.history, write), lost)

    # --- effects

    @when(lambda it: is_held(it) and not it.run.ending)
    @rule(key=st.sampled_from(sorted(CALLS)), again=OFTEN_NOT, lost=OFTEN_NOT, acts=st.booleans())
    def begin(self, key: str, again: bool, lost: bool, acts: bool) -> None:
        self.do(self.history.begin, 0, key, again=again, lost=lost)
        if acts:
            self.do(self.history.perform, -1, lands=True)
            self.do(self.history.report, -1, knows=True, retryable=False)

    @when(lambda it: is_held(it) and it.run.ending)
    @rule(lost=OFTEN_NOT, lands=st.sampled_from([True, True, False]))
    def undo(self, lost: bool, lands: bool) -> None:
        self.do(self.history.undo_newest, 0, lost=lost)
        self.do(self.history.perform, -1, lands=lands)
        self.do(self.history.report, -1, knows=True, retryable=True)

    @when(lambda it: it.history.at_hand or it.history.performed)
    @rule(which=WHICH, lands=st.booleans(), knows=st.sampled_from([True, True, False]), retryable=st.booleans())
    def outside(self, which: int, lands: bool, knows: bool, retryable: bool) -> None:
        """Make a call that a worker must perform, however long ago; or report one that was made."""
        if self.history.at_hand:
            self.do(self.history.perform, which, lands=lands)
        else:
            self.do(self.history.report, which, knows=knows, retryable=retryable)

    # --- people

    @when(lambda it: it.run.open_waits)
    @rule(
        which=WHICH, who=WHICH, verdict=VERDICTS, stale=OFTEN_NOT, late=OFTEN_NOT, door=st.sampled_from(["api", "page"])
    )
    def answer(self, which: int, who: int, verdict: str, **how: Any) -> None:
        self.do(self.history.answer, which, who, verdict, **how)

    @when(lambda it: it.history.asked and not it.run.lease_until)
    @rule(which=WHICH, who=WHICH)
    def take_back(self, which: int, who: int) -> None:
        self.do(self.history.take_back, which, who)

    @rule(
        what=st.sampled_from(["pause", "cancel", "halt"]), choice=st.sampled_from(["keep", "redo"]), is_sure=OFTEN_NOT
    )
    def press(self, what: str, choice: str, is_sure: bool) -> None:
        """Pause, halt, cancel or restart the run, or lift the pause or halt."""
        if kill_switch.is_halted(self.history.agent.pk):
            self.do(self.history.halt, lift=True)
        elif self.run.ended_at:
            self.do(self.history.restart, choice)
        elif self.run.pause_asked_at:
            self.do(self.history.control, control_run.resume_run)
        elif what == "pause":
            self.do(self.history.control, control_run.pause_run)
        elif what == "halt":
            self.do(self.history.halt, lift=False)
        elif is_sure:
            self.do(self.history.control, control_run.cancel_run)

    @when(lambda it: it.run.ended_at)
    @rule()
    def another_run(self) -> None:
        self.come_to_an_end()
        self.begin_again()

    @when(lambda it: it.run.open_holds or (it.history.requests and it.run.open_waits == 0))
    @rule(which=WHICH, again=OFTEN_NOT, stays=st.booleans())
    def owner(self, which: int, again: bool, stays: bool) -> None:
        self.do(self.history.order_again, which) if again else self.do(self.history.settle)
        self.do(self.history.lift, stays=stays)

    # --- the agent without a lease, the world, time

    @when(lambda it: it.run.open_waits)
    @rule(which=WHICH, what=st.sampled_from(["amend", "amend", "withdraw", "signal", "signal"]))
    def agent(self, which: int, what: str) -> None:
        self.do(getattr(self.history, what), which)

    @when(lambda it: it.run.open_continuation == "checking")
    @rule(stock=st.sampled_from([7, 7, 8]))
    def check(self, stock: int) -> None:
        self.history.stock = stock
        self.do(self.history.check)

    @when(is_held)
    @rule(swept=st.booleans())
    def worker_is_lost(self, swept: bool) -> None:
        self.do(self.history.lease_lapses)
        if swept:
            self.do(self.history.sweep)

    @when(lambda it: it.run.open_waits)
    @rule(which=WHICH, swept=st.booleans())
    def deadlines_pass(self, which: int, swept: bool) -> None:
        self.do(self.history.deadline_comes, which)
        if swept:
            self.do(self.history.sweep)

    @when(lambda it: not it.run.lease_until and not it.run.ended_at)
    @rule(is_over=OFTEN_NOT)
    def time_passes(self, is_over: bool) -> None:
        if is_over:
            self.do(self.history.end_comes)
        self.do(self.history.sweep)

    # --- what always holds

    @invariant()
    def rows_keep_the_promises(self) -> None:
        run = self.run
        assert breaches(run.pk) == []
        assert run.status == compute_status(run)
        assert run.expires_at or run.lease_until or run.ended_at or run.ending, "nothing would ever end it"

    @invariant()
    def nothing_was_done_twice_without_a_reason(self) -> None:
        for key, times in self.history.landed.items():
            if key not in CALLS or CALLS[key][1] == "never":
                assert times <= 1 + self.history.orders(key), f"{key} landed {times} times"

    @invariant()
    def an_applied_effect_was_performed(self) -> None:
        stands = Effect.objects.filter(scope=self.history.started.run.public_id, status__in=["applied", "compensated"])
        assert [effect.key for effect in stands if not self.history.landed[effect.key]] == []

    @invariant()
    def an_answer_is_delivered_by_one_continuation(self) -> None:
        assert [made for made in self.history.delivered_by.values() if len(made) > 1] == []

    def teardown(self) -> None:
        try:
            self.come_to_an_end()
        finally:
            transaction.set_rollback(True)
            self.kept_apart.__exit__(None, None, None)

    def come_to_an_end(self) -> None:
        """Only regular steps are taken: within some rounds the run ends, and the promises hold."""
        history = self.history
        for _ in range(40):
            if history.run.ended_at:
                break
            self.lend_a_hand()
        self.run = history.run
        assert self.run.ended_at, f"it never ends: {self.run.status}"
        self.rows_keep_the_promises()
        self.nothing_was_done_twice_without_a_reason()
        assert find_changed_records(self.run) == "", "its events record every row as it is"
        figures.count("random histories", "every invariant held after each move, and each came to an end")

    def lend_a_hand(self) -> None:
        history = self.history
        if kill_switch.is_halted(history.agent.pk):
            self.do(history.halt, lift=True)
        self.do(history.control, control_run.resume_run)
        while history.at_hand:
            self.do(history.perform, 0, lands=True)
        for place in range(len(history.performed)):
            self.do(history.report, place, knows=True, retryable=False)
        self.do(history.settle)
        self.do(history.lift, stays=True)
        history.stock = 7
        self.do(history.sweep)
        for who in (0, 1):
            self.do(history.answer, 0, who, "approve", stale=False, late=False, door="api")
        if history.interrupts(status="waiting", queue=None):
            self.do(history.deadline_comes, 0)
        if not history.run.lease_until:
            history.undo_time_is_over()
            self.do(history.claim)
        if history.run.ending:
            self.do(history.undo_newest, 0, lost=False)
        else:
            self.do(history.complete, 0)
        if history.run.lease_until:
            history.lease_lapses()


@pytest.mark.parametrize("of", figures.SEEDS)
def test_no_history_breaks_a_promise(of: int):
    run_state_machine_as_test(
        seed(of)(Histories),
        settings=settings(
            max_examples=HISTORIES,
            stateful_step_count=MOVES,
            phases=[Phase.generate, Phase.shrink] if LONG else [Phase.generate],  # shrinking one takes minutes
            suppress_health_check=list(HealthCheck),
        ),
    )
    assert Run.objects.count() == 0, "histories are kept apart"
