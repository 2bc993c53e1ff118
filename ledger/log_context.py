"""Ids of what the current request or task works on, for its log lines: request, agent, person, run, interrupt.

Only ids that the API shows, and a person's number in place of their address. A context is an object that the threads of
a request share: what a use case notes is known when the response is logged.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field


@dataclass
class LogContext:
    """``waited``: seconds in which the request only waited for something to happen, as a long poll does.

    ``trace_parent`` belongs to ``trace_context``. ``of_run``: names of the ids that came with the run.
    """

    ids: dict[str, str] = field(default_factory=dict)
    waited: float = 0.0
    has_several_runs: bool = False
    trace_parent: str = ""
    of_run: set[str] = field(default_factory=set)


_current: ContextVar[LogContext | None] = ContextVar("log_context", default=None)


def current() -> LogContext:
    """Return the context of the current request or task; an empty one that is not kept outside both."""
    return _current.get() or LogContext()


@contextmanager
def log_context(**ids: str) -> Iterator[LogContext]:
    """Begin a context that has only these ids."""
    context = LogContext(ids)
    token = _current.set(context)
    try:
        yield context
    finally:
        _current.reset(token)


@contextmanager
def part_of_task() -> Iterator[None]:
    """Forget at the end of the block which ids were noted in it: a task works on one row after another."""
    outer = current()
    with log_context(**outer.ids) as context:
        context.of_run = set(outer.of_run)
        yield


def note_ids(**ids: str) -> None:
    """Add these ids to the log lines from here on."""
    current().ids.update(ids)


def note_run(run_id: str, **ids: str) -> None:
    """Add the id of a run, and those of ``ids``. What was noted with another run is forgotten, and its interrupt.

    The agent of a request is that of its key, and stays.
    """
    context = current()
    if context.ids.get("run", run_id) != run_id:
        context.has_several_runs = True
        for name in {"interrupt", *context.of_run}:
            context.ids.pop(name, None)
        context.of_run.clear()
    context.of_run.update(name for name in ids if name not in context.ids)
    context.ids.update(ids, run=run_id)
