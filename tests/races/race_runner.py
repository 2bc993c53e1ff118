"""The race runner: processes that act at the same time, round after round, on committed rows.

Each racer is one fork that lives through all rounds, waits at a barrier before each action, and returns its result. A
refused action returns its refusal and a failed one its error, so the test sees everything. `without` removes a guard in
the racers only (`guards`), so that a test can show the race that the guard prevents.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from typing import Any

from django.db import connection, connections

from ledger.errors import Refusal
from tests import figures

#: Rounds of one race, and rounds in which a race without its guard has to have shown itself.
ROUNDS = 1000 if os.environ.get("REVIEWQUEUE_LONG") else 50
ROUNDS_WITHOUT = 100
SECONDS = 180

#: A racer's move: takes what the round is about, returns its result (plain values).
Move = Callable[[dict[str, Any]], Any]


@dataclass(frozen=True, kw_only=True)
class RaceResult:
    """The result of one racer in one round: a value, the code and members of a refusal, or an error."""

    by: str
    result: Any = None
    refused: str = ""
    extra: dict[str, Any] = field(default_factory=dict)
    broke: str = ""

    @property
    def done(self) -> bool:
        return not self.refused and not self.broke


class Race:
    """The racers, ready at the start."""

    def __init__(self, pipes: Mapping[str, Connection]) -> None:
        self._pipes = pipes

    def round(self, **what: Any) -> list[RaceResult]:
        """Let every racer act at once; returns their results."""
        self.begin(**what)
        return self.finished()

    def begin(self, **what: Any) -> None:
        """Let every racer act at once, and continue beside them."""
        for pipe in self._pipes.values():
            pipe.send(what)

    def finished(self) -> list[RaceResult]:
        """Return every result, after the last racer has finished."""
        return [self._hear(name, pipe) for name, pipe in self._pipes.items()]

    def _hear(self, name: str, pipe: Connection) -> RaceResult:
        if not pipe.poll(SECONDS):
            raise AssertionError(f"{name} says nothing for {SECONDS} seconds")
        told: RaceResult = pipe.recv()
        return told


@contextlib.contextmanager
def racers(moves: Mapping[str, Move], *, without: Callable[[], None] | None = None) -> Iterator[Race]:
    """Start one process per action; all have ended at the end of the block."""
    connections.close_all()  # two processes must not share a connection
    fork = multiprocessing.get_context("fork")
    barrier = fork.Barrier(len(moves))
    pipes, processes = {}, []
    for name, move in moves.items():
        ours, theirs = fork.Pipe()
        process = fork.Process(target=_race, args=(theirs, barrier, name, move, without), daemon=True, name=name)
        process.start()
        theirs.close()
        pipes[name] = ours
        processes.append(process)
    try:
        yield Race(pipes)
        for pipe in pipes.values():
            pipe.send(None)
        for process in processes:
            process.join(5)
    finally:
        for process in processes:
            process.kill()
            process.join()


def first_breach(
    moves: Mapping[str, Move], play: Callable[[Race], list[str]], *, without: Callable[[], None], until: str = ""
) -> list[str]:
    """Race without a guard until a breach occurs, or one that contains ``until``; returns the breaches of the last round."""
    wrong: list[str] = []
    with racers(moves, without=without) as race:
        for _ in range(ROUNDS_WITHOUT):
            wrong = play(race)
            if any(until in breach for breach in wrong):
                break
    return wrong


def _race(pipe: Connection, barrier: Barrier, name: str, move: Move, without: Callable[[], None] | None) -> None:
    if without is not None:
        without()
    # A fork has the numbers of its parent: all racers would hesitate equally long.
    random.seed(f"{figures.SEED} {name}")
    connection.ensure_connection()
    while (what := pipe.recv()) is not None:
        barrier.wait(SECONDS)
        pipe.send(_move(name, move, what))
    connections.close_all()


def _move(name: str, move: Move, what: dict[str, Any]) -> RaceResult:
    try:
        return RaceResult(by=name, result=move(what))
    except Refusal as refusal:
        return RaceResult(by=name, refused=refusal.code, extra=refusal.extra)
    except Exception as error:  # noqa: BLE001  a server error is what the race is judged by
        return RaceResult(by=name, broke=f"{type(error).__name__}: {error}".splitlines()[0])
