"""Whatever everybody does in whatever order: the invariants hold after each move, and every history comes to an end.

Chance makes the moves of ``histories.Story``; what the rows say is judged as after a race, and what they cannot know by what
really happened outside. `manage.py test --seed N` gives chance its seed, `--seeds M` so many seeds in a row, `--long` more
and longer histories.
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
from runs.run_status import standing
from runs.use_cases import control_run
from tests import figures
from tests.races.invariants import breaches
from tests.runs.histories import CALLS, HANDS_BACK, Story, refused

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
    """A rule that is for such a moment only; chance would otherwise spend itself on moves that do nothing."""
    return precondition(lambda machine: bool(asked(machine)))


def is_held(machine: Histories) -> bool:
    return machine.run.lease_until is not None and not machine.run.ended_at


class Histories(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.kept_apart = transaction.atomic()  # each history begins with the same rows
        self.kept_apart._from_testcase = True  # the use cases open their own transactions in it
        self.kept_apart.__enter__()
        self.begin_anew()

    def begin_anew(self) -> None:
        self.story = Story()
        self.run = self.story.run

    def do(self, move: Any, *values: Any, **named: Any) -> None:
        code = refused(move, *values, **named)
        note(f"    {move.__name__}: {code or 'done'}")
        self.run = self.story.run

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
        """Whoever has the next word speaks, so that histories come far."""
        story, run = self.story, self.run
        if run.ended_at:
            return
        if run.lease_until and run.ending:
            self.undo(lost=False, lands=True)
        elif run.lease_until and (key == "letter" or run.permits.filter(void_at=None).exists()):
            self.begin(key=key, again=False, lost=False, acts=True)
        elif run.lease_until:
            kinds = ["approval", "approval"] if who == 3 else ["approval"]
            self.do(story.suspend, 0, kinds, "all", "cancel", quorum, on_change)
        elif run.open_waits:
            self.do(story.answer, 0, who, verdict, stale=False, late=False, door=door)
        elif run.open_continuation == "checking":
            self.do(story.check)
        elif run.open_continuation == "ready":
            self.do(story.undo_time_is_over)
            self.do(story.claim)

    @when(is_held)
    @rule(what=st.sampled_from(["commit", "beat", "complete", "fail", *HANDS_BACK]), is_sure=st.booleans())
    def work(self, what: str, is_sure: bool) -> None:
        if what in HANDS_BACK:
            self.do(self.story.hand_back, 0, what)
        elif is_sure or what in {"commit", "beat"}:
            self.do(getattr(self.story, what), 0)

    @when(is_held)
    @rule(
        kinds=KINDS,
        resume_when=st.sampled_from(["all", "any"]),
        do=st.sampled_from(["cancel", "fail", "resume"]),
        quorum=st.sampled_from([1, 1, 2]),
        on_change=st.sampled_from(["", "replan", "renew"]),
    )
    def suspend(self, **asked: Any) -> None:
        self.do(self.story.suspend, 0, **asked)

    @when(lambda it: len(it.story.leases) > 1 or not it.run.lease_until)
    @rule(lease=st.integers(0, 2), write=st.sampled_from(["commit", "beat", "complete", "fail"]))
    def wake_too_late(self, lease: int, write: str) -> None:
        """A worker that was lost writes, under any lease but the one that stands."""
        lost = 1 + lease % (len(self.story.leases) - 1) if self.run.lease_until else lease
        self.do(getattr(self.story, write), lost)

    # --- effects

    @when(lambda it: is_held(it) and not it.run.ending)
    @rule(key=st.sampled_from(sorted(CALLS)), again=OFTEN_NOT, lost=OFTEN_NOT, acts=st.booleans())
    def begin(self, key: str, again: bool, lost: bool, acts: bool) -> None:
        self.do(self.story.begin, 0, key, again=again, lost=lost)
        if acts:
            self.do(self.story.perform, -1, lands=True)
            self.do(self.story.report, -1, knows=True, retryable=False)

    @when(lambda it: is_held(it) and it.run.ending)
    @rule(lost=OFTEN_NOT, lands=st.sampled_from([True, True, False]))
    def undo(self, lost: bool, lands: bool) -> None:
        self.do(self.story.undo_newest, 0, lost=lost)
        self.do(self.story.perform, -1, lands=lands)
        self.do(self.story.report, -1, knows=True, retryable=True)

    @when(lambda it: it.story.at_hand or it.story.performed)
    @rule(which=WHICH, lands=st.booleans(), knows=st.sampled_from([True, True, False]), retryable=st.booleans())
    def outside(self, which: int, lands: bool, knows: bool, retryable: bool) -> None:
        """A call goes out that a worker was told to perform, however long ago; or one that went out is reported."""
        if self.story.at_hand:
            self.do(self.story.perform, which, lands=lands)
        else:
            self.do(self.story.report, which, knows=knows, retryable=retryable)

    # --- people

    @when(lambda it: it.run.open_waits)
    @rule(
        which=WHICH, who=WHICH, verdict=VERDICTS, stale=OFTEN_NOT, late=OFTEN_NOT, door=st.sampled_from(["api", "page"])
    )
    def answer(self, which: int, who: int, verdict: str, **how: Any) -> None:
        self.do(self.story.answer, which, who, verdict, **how)

    @when(lambda it: it.story.asked and not it.run.lease_until)
    @rule(which=WHICH, who=WHICH)
    def take_back(self, which: int, who: int) -> None:
        self.do(self.story.take_back, which, who)

    @rule(
        what=st.sampled_from(["pause", "cancel", "halt"]), choice=st.sampled_from(["keep", "redo"]), is_sure=OFTEN_NOT
    )
    def press(self, what: str, choice: str, is_sure: bool) -> None:
        """Whatever was pressed is taken back at the next time."""
        if kill_switch.is_halted(self.story.agent.pk):
            self.do(self.story.halt, lift=True)
        elif self.run.ended_at:
            self.do(self.story.restart, choice)
        elif self.run.pause_asked_at:
            self.do(self.story.control, control_run.resume_run)
        elif what == "pause":
            self.do(self.story.control, control_run.pause_run)
        elif what == "halt":
            self.do(self.story.halt, lift=False)
        elif is_sure:
            self.do(self.story.control, control_run.cancel_run)

    @when(lambda it: it.run.ended_at)
    @rule()
    def another_run(self) -> None:
        self.come_to_an_end()
        self.begin_anew()

    @when(lambda it: it.run.open_holds or (it.story.requests and it.run.open_waits == 0))
    @rule(which=WHICH, again=OFTEN_NOT, stays=st.booleans())
    def owner(self, which: int, again: bool, stays: bool) -> None:
        self.do(self.story.order_again, which) if again else self.do(self.story.settle)
        self.do(self.story.lift, stays=stays)

    # --- the agent without a lease, the world, time

    @when(lambda it: it.run.open_waits)
    @rule(which=WHICH, what=st.sampled_from(["amend", "amend", "withdraw", "signal", "signal"]))
    def agent(self, which: int, what: str) -> None:
        self.do(getattr(self.story, what), which)

    @when(lambda it: it.run.open_continuation == "checking")
    @rule(stock=st.sampled_from([7, 7, 8]))
    def check(self, stock: int) -> None:
        self.story.stock = stock
        self.do(self.story.check)

    @when(is_held)
    @rule(swept=st.booleans())
    def worker_is_lost(self, swept: bool) -> None:
        self.do(self.story.lease_lapses)
        if swept:
            self.do(self.story.sweep)

    @when(lambda it: it.run.open_waits)
    @rule(which=WHICH, swept=st.booleans())
    def nobody_answers(self, which: int, swept: bool) -> None:
        self.do(self.story.deadline_comes, which)
        if swept:
            self.do(self.story.sweep)

    @when(lambda it: not it.run.lease_until and not it.run.ended_at)
    @rule(is_over=OFTEN_NOT)
    def time_passes(self, is_over: bool) -> None:
        if is_over:
            self.do(self.story.end_comes)
        self.do(self.story.sweep)

    # --- what always holds

    @invariant()
    def rows_keep_the_promises(self) -> None:
        run = self.run
        assert breaches(run.pk) == []
        assert run.status == standing(run)
        assert run.expires_at or run.lease_until or run.ended_at or run.ending, "nothing would ever end it"

    @invariant()
    def nothing_was_done_twice_without_a_reason(self) -> None:
        for key, times in self.story.landed.items():
            if key not in CALLS or CALLS[key][1] == "never":
                assert times <= 1 + self.story.orders(key), f"{key} landed {times} times"

    @invariant()
    def what_stands_as_applied_was_done(self) -> None:
        stands = Effect.objects.filter(scope=self.story.started.run.public_id, status__in=["applied", "compensated"])
        assert [effect.key for effect in stands if not self.story.landed[effect.key]] == []

    @invariant()
    def an_answer_is_gone_on_from_once(self) -> None:
        assert [made for made in self.story.gone_on.values() if len(made) > 1] == []

    def teardown(self) -> None:
        try:
            self.come_to_an_end()
        finally:
            transaction.set_rollback(True)
            self.kept_apart.__exit__(None, None, None)

    def come_to_an_end(self) -> None:
        """Everybody does what is theirs, and nothing else: within some rounds the run has ended, and the promises hold."""
        story = self.story
        for _ in range(40):
            if story.run.ended_at:
                break
            self.lend_a_hand()
        self.run = story.run
        assert self.run.ended_at, f"it never ends: {self.run.status}"
        self.rows_keep_the_promises()
        self.nothing_was_done_twice_without_a_reason()
        assert find_changed_records(self.run) == "", "its events record every row as it is"
        figures.count("random histories", "every invariant held after each move, and each came to an end")

    def lend_a_hand(self) -> None:
        story = self.story
        if kill_switch.is_halted(story.agent.pk):
            self.do(story.halt, lift=True)
        self.do(story.control, control_run.resume_run)
        while story.at_hand:
            self.do(story.perform, 0, lands=True)
        for place in range(len(story.performed)):
            self.do(story.report, place, knows=True, retryable=False)
        self.do(story.settle)
        self.do(story.lift, stays=True)
        story.stock = 7
        self.do(story.sweep)
        for who in (0, 1):
            self.do(story.answer, 0, who, "approve", stale=False, late=False, door="api")
        if story.waits(status="waiting", queue=None):
            self.do(story.deadline_comes, 0)
        if not story.run.lease_until:
            story.undo_time_is_over()
            self.do(story.claim)
        if story.run.ending:
            self.do(story.undo_newest, 0, lost=False)
        else:
            self.do(story.complete, 0)
        if story.run.lease_until:
            story.lease_lapses()


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
