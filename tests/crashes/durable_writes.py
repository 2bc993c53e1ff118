"""Every durable write of one call, as moments at which a process can die: before each writing statement, before each
COMMIT and after it.

Nothing is named by hand: the call is watched at the connection once, and each moment found is a place to die at. A commit
that had nothing to write is none. Used by the table of verbs; named points of one story are in ``points``.
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
class Moment:
    """A place to die at. ``commits``: how many transactions of the call were on disk by then."""

    number: int
    words: str
    commits: int


@dataclass(kw_only=True)
class Watch:
    """Stands at this process's connection; at the moment ``die_at`` the process gets SIGKILL.

    ``in_pieces``: what was written by then is on disk, as if nobody had opened a transaction.
    """

    die_at: Moment | None = None
    in_pieces: bool = False
    moments: list[Moment] = field(default_factory=list)
    commits: int = 0
    written: bool = False

    def statement(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        verb, _, rest = str(sql).lstrip().partition(" ")
        if verb.upper() not in WRITES:
            return execute(sql, params, many, context)
        self._reach(f"before {verb} {' '.join(rest.split()[:2])}")
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
        self.moments.append(Moment(number=len(self.moments), words=words, commits=self.commits))
        if self.die_at == self.moments[-1]:
            if self.in_pieces:
                connections[DEFAULT_DB_ALIAS].connection.commit()
            os.kill(os.getpid(), signal.SIGKILL)


@contextlib.contextmanager
def watched(*, die_at: Moment | None = None, in_pieces: bool = False) -> Iterator[Watch]:
    watch, connection = Watch(die_at=die_at, in_pieces=in_pieces), connections[DEFAULT_DB_ALIAS]
    inner = connection.commit
    connection.commit = watch.committing(inner)  # type: ignore[method-assign]
    try:
        with connection.execute_wrapper(watch.statement):
            yield watch
    finally:
        del connection.commit


def die(act: Callable[[], object], *, at: Moment, in_pieces: bool = False) -> None:
    """Let a process of its own act, and die at the moment; returns when it is dead."""
    connections.close_all()  # two processes must not share a connection
    pid = os.fork()
    if pid == 0:
        _act_and_die(act, at, in_pieces)
    _, status = os.waitpid(pid, 0)
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    assert killed, f"it was not killed at moment {at.number}, {at.words}: {status}"


def _act_and_die(act: Callable[[], object], at: Moment, in_pieces: bool) -> None:
    try:
        with watched(die_at=at, in_pieces=in_pieces):
            act()
    except Refusal:
        os._exit(3)  # it had its moments, none of them was the one
    finally:
        os._exit(2)
