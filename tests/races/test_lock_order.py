"""The lock order: every use case locks its run first, holds no other lock then, and decides by what it reads
afterwards.

Each test waits until the other session is blocked, as reported by the database (`pg_blocking_pids`).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import AbstractUser
from django.db import transaction

from ledger import attempt_tokens, clock
from ledger.models import Effect
from reviewqueue import permissions, resume_gateway, reviewer_actions
from runs.checkpoints import Snapshot
from runs.locks import locked_runs
from runs.models import Continuation, Interrupt, Run
from runs.use_cases import (
    claim_continuation,
    commit_checkpoint,
    complete_run,
    control_run,
    expire,
    extend_lease,
    reconcile_facts,
    reconcile_outcomes,
    release_lease,
    report_effect,
)
from tests import builders
from tests.races import guards
from tests.races.invariants import breaches, rows
from tests.races.race_runner import Move, racers
from tests.races.test_decisions import ANSWERS, an_answerer

pytestmark = [pytest.mark.postgresql, pytest.mark.django_db(transaction=True)]

KEY = "order:PR-4711"


@dataclass(frozen=True, kw_only=True)
class Ready:
    """A run, and an action on it that is about to start."""

    run: Run
    move: Callable[[], Any]


def a_decision() -> Ready:
    ana, interrupt = builders.a_reviewer(), builders.a_waiting_interrupt()
    give = an_answerer(ana, ANSWERS[0])
    return Ready(run=interrupt.run, move=lambda: give({"interrupt": interrupt.public_id}))


def a_reviewer_s_claim() -> Ready:
    ana, interrupt = builders.a_reviewer(), builders.a_waiting_interrupt()
    return Ready(
        run=interrupt.run,
        move=lambda: bool(reviewer_actions.claim_request(responder=ana, interrupt_id=interrupt.public_id)),
    )


def a_due_wait() -> Interrupt:
    interrupt = builders.a_waiting_interrupt()
    builders.move_deadline(interrupt, clock.now())
    return interrupt


def an_expiry() -> Ready:
    interrupt = a_due_wait()
    return Ready(run=interrupt.run, move=lambda: expire.expire_interrupt_if_due(interrupt_pk=interrupt.pk))


def the_expiry_of_an_unclaimed_run() -> Ready:
    interrupt = builders.a_waiting_interrupt()
    Run.objects.filter(pk=interrupt.run_id).update(expires_at=clock.now())
    return Ready(run=interrupt.run, move=lambda: expire.expire_run_if_due(run_pk=interrupt.run_id))


def the_end_of_a_lease() -> Ready:
    run = a_run_with_an_effect()[0]
    builders.end_lease_now(run, clock.now())
    return Ready(run=run, move=lambda: expire.end_lease_if_lapsed(run_pk=run.pk))


def a_claim() -> Ready:
    run = builders.a_running_run(lease_seconds=0).run
    continuation = Continuation.objects.get(run=run)
    request = builders.a_claim_request(run.agent)
    return Ready(
        run=run,
        move=lambda: bool(claim_continuation.claim_continuation_by_id(request, continuation_id=continuation.public_id)),
    )


def a_check() -> Ready:
    run = builders.a_running_run(lease_seconds=0).run
    Continuation.objects.filter(run=run).update(status="checking", check_due_at=clock.now())
    Run.objects.filter(pk=run.pk).update(open_continuation="checking", status="revalidating", ready_since=None)
    continuation = Continuation.objects.get(run=run)
    return Ready(run=run, move=lambda: bool(reconcile_facts.begin_revalidation(continuation_id=continuation.public_id)))


def a_run_with_an_effect() -> tuple[Run, str]:
    """A leased run with an effect under way, and the token of its lease."""
    started = builders.a_running_run()
    assert started.lease is not None
    begin(started.run, started.lease.token)
    return started.run, started.lease.token


def begin(run: Run, token: str, key: str = KEY) -> bool:
    call = builders.CALL
    begun = builders.begin_effect(
        still_may_decide=permissions.still_may_decide,
        agent=run.agent,
        run_id=run.public_id,
        token=token,
        key=key,
        name=call["name"],
        arguments=call["arguments"],
    )
    return begun.perform


def an_effect_begun() -> Ready:
    run, token = a_run_with_an_effect()
    return Ready(run=run, move=lambda: begin(run, token, "order:PR-4712"))


def an_effect_reported() -> Ready:
    run, _ = a_run_with_an_effect()
    told = {"key": KEY, "attempt_token": attempt_tokens.make_attempt_token(run.public_id, KEY, 1), "status": "applied"}
    move = lambda: bool(report_effect.report_effect(agent=run.agent, run_id=run.public_id, **told))  # noqa: E731
    return Ready(run=run, move=move)


def an_effect_settled() -> Ready:
    ready = the_end_of_a_lease()
    ready.move()
    owner = builders.a_person("owner@example.org", "agent-owners")
    effect = Effect.objects.get(scope=ready.run.public_id)
    words = {"effect_id": effect.pk, "outcome": "applied", "person": owner, "reason": "The order is in the books."}
    return Ready(run=ready.run, move=lambda: bool(reconcile_outcomes.resolve_unknown_outcome(**words)))


def a_worker_s(verb: Callable[..., Any], **words: Any) -> Callable[[], Ready]:
    def prepare() -> Ready:
        started = builders.a_running_run()
        assert started.lease is not None
        call = {"agent": started.run.agent, "run_id": started.run.public_id, "token": started.lease.token}
        return Ready(run=started.run, move=lambda: bool(verb(**call, **words)))

    return prepare


def a_suspend() -> Ready:
    started, wait = builders.a_running_run(), builders.a_wait()
    return Ready(run=started.run, move=lambda: bool(builders.suspend_run(started, wait)))


def a_person_s(verb: Callable[..., Any]) -> Callable[[], Ready]:
    def prepare() -> Ready:
        run = builders.a_waiting_interrupt().run
        words = {"run_id": run.public_id, "actor": "person:ana@example.org", "reason": "", "check": lambda _: None}
        return Ready(run=run, move=lambda: bool(verb(**words)))

    return prepare


STEP = {"after": 0, "snapshot": Snapshot(step="next", state={}), "facts": []}
VERBS: dict[str, Callable[[], Ready]] = {
    "decide": a_decision,
    "claim to review": a_reviewer_s_claim,
    "claim a run": a_claim,
    "check": a_check,
    "begin an effect": an_effect_begun,
    "report an effect": an_effect_reported,
    "settle an effect": an_effect_settled,
    "suspend": a_suspend,
    "commit a checkpoint": a_worker_s(commit_checkpoint.commit_checkpoint, **STEP),
    "beat": a_worker_s(extend_lease.record_heartbeat, progress=None),
    "complete": a_worker_s(complete_run.complete_run, result=None),
    "fail": a_worker_s(complete_run.fail_run, error="no stock"),
    "pause": a_person_s(control_run.pause_run),
    "resume": a_person_s(control_run.resume_run),
    "cancel": a_person_s(control_run.cancel_run),
    "hand back": a_worker_s(release_lease.hand_back_run, reason="retry", detail=""),
}
#: A sweep has others to look after: it passes by a run that is locked, since its holder may be frozen.
SWEEPS: dict[str, Callable[[], Ready]] = {
    "expire an interrupt": an_expiry,
    "expire a run": the_expiry_of_an_unclaimed_run,
    "end a lease": the_end_of_a_lease,
}


@contextlib.contextmanager
def a_locked(run: Run) -> Iterator[None]:
    """Hold the run's lock in this session until the block ends."""
    with transaction.atomic():
        locked_runs().get(pk=run.pk)
        yield


def wait_until_another_is_blocked() -> None:
    """Return when a session waits for a lock that this one holds."""
    deadline = time.monotonic() + 20
    blocked = "SELECT pid FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid))"
    while not rows(blocked):
        assert time.monotonic() < deadline, "no session waits for the lock of this one"
        time.sleep(0.005)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_waits_for_its_run_before_it_locks_anything_else(verb: str):
    ready = VERBS[verb]()
    with racers({verb: lambda _: ready.move()}) as race:
        with a_locked(ready.run):
            race.begin()
            wait_until_another_is_blocked()
            # NOWAIT: had the other locked one of these already, this would break, and two verbs could wait for each other.
            for row in (Interrupt, Continuation):
                list(row.objects.select_for_update(nowait=True).filter(run=ready.run))
            list(Effect.objects.select_for_update(nowait=True).filter(scope=ready.run.public_id))
        [told] = race.finished()
    assert (told.result is not None, told.refused, told.broke) == (True, "", "")
    assert breaches(ready.run.pk) == []


@pytest.mark.parametrize("verb", SWEEPS)
def test_a_sweep_passes_by_a_run_that_is_locked_and_ends_it_afterwards(verb: str):
    ready = SWEEPS[verb]()
    with racers({verb: lambda _: ready.move()}) as race:
        with a_locked(ready.run):
            assert race.round()[0].result is False
        assert race.round()[0].result is True
    assert breaches(ready.run.pk) == []


def test_a_frozen_session_with_a_lock_does_not_stop_the_sweep_of_other_interrupts():
    """PROMISES 20: a locked row is due again a second later."""
    locked, others = a_due_wait(), [a_due_wait() for _ in range(5)]
    with racers({"a sweep": lambda _: expire.expire_due_interrupts(limit=100)}) as race:
        with a_locked(locked.run):
            assert race.round()[0].result == len(others)
        assert race.round()[0].result == 1


def test_a_worker_that_looks_for_work_passes_by_a_run_that_is_locked():
    run = builders.a_running_run(lease_seconds=0).run
    request = builders.a_claim_request(run.agent)
    with racers({"a worker": lambda _: len(claim_continuation.claim_continuations(request, limit=1))}) as race:
        with a_locked(run):
            assert race.round()[0].result == 0
        assert race.round()[0].result == 1


# --- judged by what is found under the lock ---------------------------------------------------------------------------


def answer_while_locked_past_the_deadline(*, without: Callable[[], None] | None = None) -> tuple[str, list[str]]:
    """Decide in time, wait for the run's lock until after the deadline; returns the refusal and the breaches."""
    ana, interrupt = builders.a_reviewer(), builders.a_waiting_interrupt()
    move: Move = an_answerer(ana, ANSWERS[0])
    with racers({"ana": move}, without=without) as race:
        deadline = clock.now() + timedelta(seconds=0.6)
        builders.move_deadline(interrupt, deadline)
        with a_locked(interrupt.run):
            race.begin(interrupt=interrupt.public_id)
            wait_until_another_is_blocked()
            assert clock.now() < deadline, "this machine is too slow for the test: it answered after the deadline"
            while clock.now() <= deadline:
                time.sleep(0.01)
        [told] = race.finished()
    assert told.broke == ""
    return told.refused, breaches(interrupt.run_id)


@pytest.mark.proves(7)
def test_an_answer_that_waits_for_the_lock_past_the_deadline_is_late():
    assert answer_while_locked_past_the_deadline() == ("expired", [])


def read_the_clock_before_the_lock() -> None:
    """What the product must not do: read the clock, and then wait for the lock."""
    lock, read, moments = permissions.lock_visible_interrupt, resume_gateway.read_decision_basis, []

    def late_lock(person: AbstractUser, interrupt_id: str) -> tuple[Run, Interrupt]:
        moments.append(clock.now())
        return lock(person, interrupt_id)

    def with_early_clock(*of: Any) -> resume_gateway.DecisionBasis:
        return replace(read(*of), now=moments[-1])

    permissions.lock_visible_interrupt, resume_gateway.read_decision_basis = late_lock, with_early_clock


@pytest.mark.proves(7)
def test_with_the_clock_read_before_the_lock_a_late_answer_counts():
    refused, _ = answer_while_locked_past_the_deadline(without=read_the_clock_before_the_lock)
    assert refused == ""


def begin_while_a_pause_is_committed(*, without: Callable[[], None] | None = None) -> str:
    """Begin an effect while a person pauses the run; returns the refusal."""
    started = builders.a_running_run()
    assert started.lease is not None
    run, token = started.run, started.lease.token
    with racers({"a worker": lambda _: begin(run, token)}, without=without) as race:
        with a_locked(run):
            Run.objects.filter(pk=run.pk).update(pause_asked_at=clock.now())
            race.begin()
            wait_until_another_is_blocked()
        [told] = race.finished()
    assert told.broke == ""
    return told.refused


@pytest.mark.proves(16)
def test_no_effect_begins_once_a_pause_is_committed():
    assert begin_while_a_pause_is_committed() == "run_paused"


@pytest.mark.proves(16)
def test_without_row_locks_an_effect_begins_after_the_pause():
    assert begin_while_a_pause_is_committed(without=guards.without_row_locks) == ""
