"""Trace context (W3C ``traceparent``) of the current request or task. Without a tracer (`TRACING`) nothing is recorded.

A request to people keeps the trace context in which it was created. Its answer is a step of that trace, and so is
the claim of the continuation. Thus a trace leads from the worker that asked to the worker that continues.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from ledger import log_context


class Tracer(Protocol):
    """Records spans."""

    def current(self) -> str:
        """Return the ``traceparent`` of the current span; empty outside one."""
        ...

    def record(self, name: str, parent: str, ids: dict[str, str]) -> str:
        """Record a step of the trace ``parent``, linked with the current span; returns its ``traceparent``."""
        ...

    def task(self, name: str) -> AbstractContextManager[object]:
        """Record the block as a task."""
        ...

    def request(self, environ: dict[str, Any]) -> AbstractContextManager[Callable[[int], str]]:
        """Record the block as a request. Call the function with the status; it returns the ``traceparent``."""
        ...


_tracers: list[Tracer] = []


def use_tracer(tracer: Tracer | None) -> None:
    """Record with ``tracer`` from here on; ``None`` records nothing."""
    _tracers[:] = [] if tracer is None else [tracer]


def current_tracer() -> Tracer | None:
    return _tracers[0] if _tracers else None


def trace_parent() -> str | None:
    """Return the ``traceparent`` for new rows: that of the last recorded step, else of the current span."""
    tracer = current_tracer()
    return None if tracer is None else log_context.current().trace_parent or tracer.current() or None


def record_step(name: str, parent: str | None) -> None:
    """Record a step of the trace ``parent``. Rows that the request or task writes from here on belong to it."""
    tracer = current_tracer()
    if tracer is not None:
        context = log_context.current()
        context.trace_parent = tracer.record(name, parent, context.ids) if parent else ""


def traced_task(function: Callable[..., object]) -> AbstractContextManager[object]:
    """Record the block as the task that this function is."""
    tracer = current_tracer()
    return nullcontext() if tracer is None else tracer.task(function.__name__)
