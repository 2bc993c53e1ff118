"""Kill points at every durable write of one call: before each writing statement, before each COMMIT, and after it.

The call is observed once at its connection, and every write found is a kill point. A commit without a write is none.
Named kill points are in ``kill_points``.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections

from ledger.errors import Refusal

WRITES = {"INSERT", "UPDATE", "DELETE"}


@dataclass(frozen=True, kw_only=True)
class KillPoint:
    """A kill point. ``commits``: how many transactions of the call were committed before it."""

    number: int
    words: str
    commits: int


@dataclass(kw_only=True)
class Watch:
    """Observes this process's connection, and sends SIGKILL to the process at ``die_at``.

    ``in_pieces``: each statement commits by itself, as without a transaction.
    """

    die_at: KillPoint | None = None
    in_pieces: bool = False
    moments: list[KillPoint] = field(default_factory=list)
    commits: int = 0
    written: bool = False

    def statement(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        verb, _, rest = str(sql).lstrip().partition(" ")
        writes_together = verb == "WITH" and ("INSERT INTO" in rest or "UPDATE " in rest)  # ledger.write_batch
        if verb.upper() not in WRITES and not writes_together:
            return execute(sql, params, many, context)
        self._reach(f"before {verb} {' '.join(rest.split()[: 5 if writes_together else 2])}")
        self.written = True
        result = execute(sql, params, many, context)
        if not context["connection"].in_atomic_block:  # a statement that is its own transaction
            self._on_disk()
        return result

    def committing(self, commit: Callable[[], None]) -> Callable[[], None]:
        def committed() -> None:
            if self.written:
                self._reach("before COMMIT")
            commit()
            if self.written:
                self._on_disk()

        return committed

    def _on_disk(self) -> None:
        self.commits, self.written = self.commits + 1, False
        self._reach("after COMMIT")

    def _reach(self, words: str) -> None:
        self.moments.append(KillPoint(number=len(self.moments), words=words, commits=self.commits))
        if self.die_at == self.moments[-1]:
            if self.in_pieces:
                connections[DEFAULT_DB_ALIAS].connection.commit()
            os.kill(os.getpid(), signal.SIGKILL)


@contextlib.contextmanager
def watched(*, die_at: KillPoint | None = None, in_pieces: bool = False) -> Iterator[Watch]:
    watch, connection = Watch(die_at=die_at, in_pieces=in_pieces), connections[DEFAULT_DB_ALIAS]
    inner = connection.commit
    connection.commit = watch.committing(inner)  # type: ignore[method-assign]
    try:
        with connection.execute_wrapper(watch.statement):
            yield watch
    finally:
        del connection.commit


def die(act: Callable[[], object], *, at: KillPoint, in_pieces: bool = False) -> None:
    """Run the call in a separate process that dies at the kill point; returns after its death."""
    connections.close_all()  # two processes must not share a connection
    pid = os.fork()
    if pid == 0:
        _act_and_die(act, at, in_pieces)
    _, status = os.waitpid(pid, 0)
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    assert killed, f"it was not killed at kill point {at.number}, {at.words}: {status}"


def _act_and_die(act: Callable[[], object], at: KillPoint, in_pieces: bool) -> None:
    try:
        with watched(die_at=at, in_pieces=in_pieces):
            act()
    except Refusal:
        os._exit(3)  # the kill point was never reached
    finally:
        os._exit(2)
