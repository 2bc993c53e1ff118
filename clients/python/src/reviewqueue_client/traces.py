"""Trace context of the program's own OpenTelemetry: sent to the server with each call, and continued with each claim.

Without OpenTelemetry in the program nothing happens. The package does not depend on it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


def trace_headers() -> dict[str, str]:
    """Return the headers of the program's current span, without its baggage, which can have data of other people."""
    carrier: dict[str, str] = {}
    if "opentelemetry.trace" in sys.modules:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        TraceContextTextMapPropagator().inject(carrier)
    return carrier


@contextmanager
def continued_trace(traceparent: str | None) -> Iterator[None]:
    """Let the spans of the block belong to the trace of a claim."""
    if not traceparent or "opentelemetry.trace" not in sys.modules:
        yield
        return
    from opentelemetry import context
    from opentelemetry.propagate import extract

    token = context.attach(extract({"traceparent": traceparent}))
    try:
        yield
    finally:
        context.detach(token)
