"""An exhaustive model of the run status (docs/architecture.md): every reachable state, and every transition.

A state has the run's separate columns; its status is computed by the product (``run_status``). An ending run continues
by one rule, ``_continue_ending``, as in ``use_cases/end_run.py``, whatever it waited for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

from runs.run_status import ImpossibleStatus, compute_status

WORKER, COMPENSATING = 1, 2


@dataclass(frozen=True)
class State:
    """The columns that determine the status, under their names in the run, and whether effects remain to be
    compensated.

    ``stranded`` is the one hold that a claim lifts; ``held`` are the others.
    """

    ended_at: bool = False
    ending: str = ""
    lease: int = 0
    pause_asked_at: bool = False
    held: int = 0
    stranded: bool = False
    open_continuation: str = ""
    open_waits: int = 0
    to_compensate: bool = False

    @property
    def lease_until(self) -> bool | None:
        return bool(self.lease) or None

    @property
    def open_holds(self) -> int:
        return self.held + self.stranded

    @property
    def status(self) -> str:
        try:
            return str(compute_status(self))
        except ImpossibleStatus:
            return "impossible"


Move = tuple[str, State]
#: An end marks effects in flight unknown, and lifts every hold but those of effects.
HELD_AT_THE_END = (0, 1)
STARTS = [State(lease=WORKER), State(open_continuation="checking")]


def moves(state: State) -> Iterator[Move]:
    """Yield every verb that is possible in this state, and the state that it leads to."""
    if state.ended_at:
        if state.ending:
            yield (
                "restart",
                replace(
                    state,
                    ended_at=False,
                    ending="",
                    pause_asked_at=False,
                    open_continuation="checking",
                    open_waits=0,
                    held=0,
                ),
            )
        return
    if state.ending:
        yield from _of_an_ending(state)
        return
    if state.lease == WORKER:
        yield from _of_a_worker(state)
        yield "cancel", replace(state, ending="cancelled", open_continuation="", pause_asked_at=False)
    else:
        yield from _without_a_worker(state)
        for held in HELD_AT_THE_END:
            yield "cancel", _end(state, "cancelled", held)


def _end(state: State, ending: str, held: int) -> State:
    """End a run without a worker: close what is open, and compensate if no outcome is unknown."""
    closed = replace(state, ending=ending, lease=0, open_waits=0, open_continuation="", pause_asked_at=False)
    closed = replace(closed, stranded=False)
    return _continue_ending(replace(closed, held=held))


def _continue_ending(state: State) -> State:
    """Wait for an owner, offer the compensation, or end: ``finish_ending`` without a worker."""
    if state.held:
        return replace(state, open_continuation="")
    if state.to_compensate:
        return replace(state, open_continuation="ready")
    return replace(state, open_continuation="", ended_at=True)


def _of_a_worker(state: State) -> Iterator[Move]:
    if state.pause_asked_at:
        yield "checkpoint, stop", replace(state, open_continuation="", lease=0)
    else:
        yield "checkpoint", replace(state, open_continuation="")
    for waits in (1, 2):
        yield f"suspend {waits}", replace(state, open_continuation="", lease=0, open_waits=waits)
    yield "complete", replace(state, ended_at=True, lease=0, open_continuation="", pause_asked_at=False)
    for held in HELD_AT_THE_END:
        yield "fail", _end(state, "failed", held)
    for stranded in (False, True):
        yield "hand back", replace(state, lease=0, open_continuation="ready", stranded=stranded)
        # Effects without a report become unknown, and need a check.
        yield "hand back", replace(state, lease=0, open_continuation="checking", stranded=stranded)
        yield "hand back, hold", replace(state, lease=0, open_continuation="checking", held=1, stranded=stranded)
    yield "lease ends", replace(state, lease=0, open_continuation="checking")
    yield "lease ends, hold", replace(state, lease=0, open_continuation="checking", held=1)
    yield "effect applied", replace(state, to_compensate=True)
    yield "effect unknown", replace(state, held=1)
    yield "settle", replace(state, held=0)
    yield "settle, applied", replace(state, held=0, to_compensate=True)
    yield "pause", replace(state, pause_asked_at=True)
    yield "resume", replace(state, pause_asked_at=False)
    yield "facts renew", replace(state, lease=0, open_continuation="", open_waits=1)


def _without_a_worker(state: State) -> Iterator[Move]:
    expired = [_end(state, "expired", held) for held in HELD_AT_THE_END]
    if not state.pause_asked_at:
        yield "pause", replace(state, pause_asked_at=True)
    elif not state.open_continuation and not state.open_waits:
        yield "resume", replace(state, pause_asked_at=False, open_continuation="checking")
    else:
        again = "checking" if state.open_continuation == "ready" else state.open_continuation
        yield "resume", replace(state, pause_asked_at=False, open_continuation=again)
    if state.open_waits:
        if state.open_waits > 1:
            yield "answer one", replace(state, open_waits=state.open_waits - 1)
        yield "answer all", replace(state, open_waits=0, open_continuation="checking")
        yield from (("expire run", to) for to in expired)
        yield "withdraw last", replace(state, open_waits=0, open_continuation="checking")
    if state.open_continuation == "checking":
        if not state.held:
            yield "pass", replace(state, open_continuation="ready")
        yield "hold", replace(state, held=1)
        yield "reopen", replace(state, open_continuation="", open_waits=1)
        yield from (("expire run", to) for to in expired)
    if state.open_continuation == "ready":
        if not (state.pause_asked_at or state.held):
            yield "claim", replace(state, open_continuation="leased", lease=WORKER, stranded=False)
            yield "recheck", replace(state, open_continuation="checking")
        yield "reopen", replace(state, open_continuation="", open_waits=1)
        yield from (("expire run", to) for to in expired)
    if state.pause_asked_at and not state.open_waits and not state.open_continuation:
        yield from (("expire run", to) for to in expired)
    if state.held:
        yield "lift", replace(state, held=0)
        yield "settle, applied", replace(state, held=0, to_compensate=True)
    if state.stranded:
        yield "retag", replace(state, stranded=False)


def _of_an_ending(state: State) -> Iterator[Move]:
    """The worker closes, then owners resolve unknown outcomes, then a worker compensates."""
    let_go = replace(state, lease=0, open_continuation="")
    if state.lease == WORKER:
        yield "effect applied", replace(state, to_compensate=True)
        yield "hold", replace(state, held=1)
        yield "lift", replace(state, held=0)
        for held in {state.held, 1}:
            for verb in ("closing checkpoint", "hand back", "lease ends"):
                yield verb, _continue_ending(replace(let_go, held=held))
    elif state.lease == COMPENSATING:
        yield "undo applied, more left", replace(state, held=0)
        yield "undo applied, last", _continue_ending(replace(let_go, to_compensate=False))
        yield "undo applied, last", _continue_ending(replace(let_go, to_compensate=False, held=0))
        yield "contradicted under way", replace(state, held=1)
        yield "undo failed", _continue_ending(replace(let_go, held=1))
        for held in (state.held, 1):
            yield "lease ends", _continue_ending(replace(let_go, held=held))
            yield "hand back", _continue_ending(replace(let_go, held=held))
    elif state.held:
        yield "settle", _continue_ending(replace(state, held=0))
        yield "settle, applied", _continue_ending(replace(state, held=0, to_compensate=True))
        yield "waive", _continue_ending(replace(state, held=0, to_compensate=False))
    elif state.open_continuation == "ready":
        yield "claim compensate", replace(state, open_continuation="leased", lease=COMPENSATING)
        yield "contradicted", _continue_ending(replace(state, held=1))


def explore(*, without: frozenset[str] = frozenset()) -> dict[State, list[Move]]:
    """Return every reachable state with its transitions. ``without``: verbs that forget their continuation, to plant a
    fault.
    """
    reached: dict[State, list[Move]] = {}
    waiting = deque(STARTS)
    while waiting:
        state = waiting.popleft()
        if state in reached:
            continue
        reached[state] = [
            (verb, replace(to, open_continuation="") if verb in without else to) for verb, to in moves(state)
        ]
        waiting.extend(to for _, to in reached[state])
    return reached
