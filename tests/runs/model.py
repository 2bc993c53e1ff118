"""An exhaustive small model of the run table (MOVES 3.1): every condition set that moves can reach, and every move.

A state is the run's separate truths; the word for each is the product's own ``standing``. ``compensate`` and the verbs of
run control are moves here before they are verbs there, so that none of them can leave a run without an end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

from runs.standing import Impossible, standing

WORKER, COMPENSATING = 1, 2


@dataclass(frozen=True)
class State:
    """The truths that decide, under the names of the run's columns, and what is left to compensate."""

    ended_at: bool = False
    ending: str = ""
    lease: int = 0
    pause_asked_at: bool = False
    open_holds: int = 0
    open_continuation: str = ""
    open_waits: int = 0
    to_compensate: bool = False

    @property
    def lease_until(self) -> bool | None:
        return bool(self.lease) or None

    @property
    def word(self) -> str:
        try:
            return str(standing(self))
        except Impossible:
            return "impossible"


Move = tuple[str, State]
STARTS = [State(lease=WORKER), State(open_continuation="checking")]


def moves(state: State) -> Iterator[Move]:
    """Every verb that may be tried on this state and where it leads."""
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
                    open_holds=0,
                ),
            )
        return
    if state.lease == WORKER and not state.ending:
        yield from _of_a_worker(state)
    if state.lease == WORKER and state.ending:
        for verb in ("closing checkpoint", "lease ends"):
            yield verb, replace(state, lease=0, open_continuation=_to_compensate(state))
        yield "hold", replace(state, open_holds=1)
    if state.lease == COMPENSATING:
        yield "compensated", replace(state, lease=0, open_continuation="", to_compensate=False)
        yield "lease ends", replace(state, lease=0, open_continuation="checking")
    if not state.lease and not state.ending:
        yield from _without_a_worker(state)
    if state.ending and not state.lease:
        yield from _of_an_ending(state)
    if not state.ending:
        if state.lease:
            yield "cancel", replace(state, ending="cancelled")
        else:
            yield "cancel", replace(state, ending="cancelled", open_waits=0, open_continuation=_to_compensate(state))


def _to_compensate(state: State) -> str:
    return "checking" if state.to_compensate else ""


def _of_a_worker(state: State) -> Iterator[Move]:
    if state.pause_asked_at:
        yield "checkpoint, stop", replace(state, open_continuation="", lease=0)
    else:
        yield "checkpoint", replace(state, open_continuation="")
    for waits in (1, 2):
        yield f"suspend {waits}", replace(state, open_continuation="", lease=0, open_waits=waits)
    yield "complete", replace(state, ended_at=True, lease=0, open_continuation="", pause_asked_at=False)
    yield "fail", replace(state, ending="failed", lease=0, open_continuation=_to_compensate(state))
    yield "hand back", replace(state, lease=0, open_continuation="ready")
    yield "lease ends", replace(state, lease=0, open_continuation="checking")
    yield "lease ends, hold", replace(state, lease=0, open_continuation="checking", open_holds=1)
    yield "effect applied", replace(state, to_compensate=True)
    yield "pause", replace(state, pause_asked_at=True)
    yield "resume", replace(state, pause_asked_at=False)
    yield "facts renew", replace(state, lease=0, open_continuation="", open_waits=1)


def _without_a_worker(state: State) -> Iterator[Move]:
    expired = replace(state, ending="expired", open_continuation=_to_compensate(state))
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
        yield "expire run", replace(expired, open_waits=0)
        yield "withdraw last", replace(state, open_waits=0, open_continuation="checking")
    if state.open_continuation == "checking":
        if not state.open_holds:
            yield "pass", replace(state, open_continuation="ready")
        yield "hold", replace(state, open_holds=1)
        yield "reopen", replace(state, open_continuation="", open_waits=1)
        yield "expire run", replace(expired, open_holds=0)
    if state.open_continuation == "ready":
        if state.word == "ready":
            yield "claim", replace(state, open_continuation="leased", lease=WORKER)
            yield "recheck", replace(state, open_continuation="checking")
        yield "reopen", replace(state, open_continuation="", open_waits=1)
        yield "expire run", expired
    if state.pause_asked_at and not state.open_waits and not state.open_continuation:
        yield "expire run", expired
    if state.open_holds:
        yield "lift", replace(state, open_holds=0)


def _of_an_ending(state: State) -> Iterator[Move]:
    if state.open_continuation == "checking" and not state.open_holds:
        yield "pass", replace(state, open_continuation="ready")
    if state.open_continuation == "checking":
        yield "hold", replace(state, open_holds=1)
    if state.open_continuation == "ready" and not state.open_holds:
        yield "claim compensate", replace(state, open_continuation="leased", lease=COMPENSATING)
    if state.open_holds:
        yield "lift", replace(state, open_holds=0)
    if not state.to_compensate and not state.open_holds and not state.open_continuation:
        yield "finish ending", replace(state, ended_at=True)


def explore(*, without: frozenset[str] = frozenset()) -> dict[State, list[Move]]:
    """Return every reachable state with its moves; ``without`` plants a fault: verbs that forget their continuation."""
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
