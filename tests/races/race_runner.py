"""Races: processes that all make their move at once, round after round, on committed rows.

One fork a racer; it lives through all rounds, waits at a barrier before each move, and tells what came of it. A move that
is refused tells the refusal, one that breaks tells the error: nothing is lost on the way to the test's judgement.
`without` takes a guard out in the racers alone (`guards`), so that a test can show the race that the guard is there for.
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
SECONDS = 60

#: A racer's move: takes what the round is about, returns what it was told (plain values).
Move = Callable[[dict[str, Any]], Any]


@dataclass(frozen=True, kw_only=True)
class Told:
    """What one racer was told in one round: a result, the code of a refusal with what came beside it, or an error."""

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

    def round(self, **what: Any) -> list[Told]:
        """Let every racer move at once; returns what each was told."""
        self.begin(**what)
        return self.told()

    def begin(self, **what: Any) -> None:
        """Let every racer move at once, and go on beside them."""
        for pipe in self._pipes.values():
            pipe.send(what)

    def told(self) -> list[Told]:
        """Return what each was told, when the last one has been."""
        return [self._hear(name, pipe) for name, pipe in self._pipes.items()]

    def _hear(self, name: str, pipe: Connection) -> Told:
        if not pipe.poll(SECONDS):
            raise AssertionError(f"{name} says nothing for {SECONDS} seconds")
        told: Told = pipe.recv()
        return told


@contextlib.contextmanager
def racers(moves: Mapping[str, Move], *, without: Callable[[], None] | None = None) -> Iterator[Race]:
    """Start one process for each move; all are gone at the end of the block."""
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


def first_wrong(
    moves: Mapping[str, Move], play: Callable[[Race], list[str]], *, without: Callable[[], None], until: str = ""
) -> list[str]:
    """Race without a guard until something goes wrong (the breach ``until``, if named); returns what did last."""
    wrong: list[str] = []
    with racers(moves, without=without) as race:
        for _ in range(ROUNDS_WITHOUT):
            wrong = play(race)
            if wrong and (not until or until in wrong):
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


def _move(name: str, move: Move, what: dict[str, Any]) -> Told:
    try:
        return Told(by=name, result=move(what))
    except Refusal as refusal:
        return Told(by=name, refused=refusal.code, extra=refusal.extra)
    except Exception as error:  # noqa: BLE001  a server error is what the race is judged by
        return Told(by=name, broke=f"{type(error).__name__}: {error}".splitlines()[0])
