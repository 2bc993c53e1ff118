"""Spans of OpenTelemetry: requests, tasks, and the steps from a request to people to its continuation (`TRACING`).

Needs the extra `reviewqueue[otel]`; only `install` imports this module. The exporter is OTLP over HTTP, which the
environment variables of OpenTelemetry configure (`OTEL_EXPORTER_OTLP_ENDPOINT`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.util import Finalize
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.trace import Link, SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from ledger import log_context
from reviewqueue.serving.http_metrics import method_of, route_of

_HEADER = "traceparent"
_FORMAT = TraceContextTextMapPropagator()
_SERVER_ERROR = 500


class OpenTelemetryTracer:
    """Records spans with a provider of each process: its exporter has a thread, which a fork would lose."""

    def __init__(self, make_processor: Callable[[], SpanProcessor]) -> None:
        self._make_processor = make_processor
        self._provider: TracerProvider | None = None
        self._process = -1

    @property
    def _tracer(self) -> trace.Tracer:
        if self._provider is None or self._process != os.getpid():
            own = {} if "OTEL_SERVICE_NAME" in os.environ else {SERVICE_NAME: "reviewqueue"}
            self._provider = TracerProvider(resource=Resource.create(own))
            self._provider.add_span_processor(self._make_processor())
            self._process = os.getpid()
            Finalize(None, self._provider.shutdown, exitpriority=1)  # in a task's process nothing else runs at its end
        return self._provider.get_tracer("reviewqueue")

    def current(self) -> str:
        return _write(None)

    def record(self, name: str, parent: str, ids: Mapping[str, str]) -> str:
        here = trace.get_current_span().get_span_context()
        links = [Link(here)] if here.is_valid else []
        span = self._tracer.start_span(name, _read(parent), links=links, attributes=_attributes(ids))
        span.end()
        return _write(trace.set_span_in_context(span))

    @contextmanager
    def task(self, name: str) -> Iterator[None]:
        with self._span(name, Context(), SpanKind.CONSUMER):
            yield

    @contextmanager
    def request(self, environ: dict[str, Any]) -> Iterator[Callable[[int], str]]:
        """Record the block as a request. Call the yielded function with the status; it returns the ``traceparent``."""
        # A request without a key chooses no trace, and nothing of it is sent on: the collector gets no text of a stranger.
        has_key = environ.get("HTTP_AUTHORIZATION", "").lower().startswith("bearer rq_")
        parent = _read(environ.get("HTTP_TRACEPARENT", "") if has_key else "")
        with self._span(method_of(environ), parent, SpanKind.SERVER) as span:

            def end(status: int) -> str:
                method, route = method_of(environ), route_of(environ)
                span.update_name(f"{method} {route}")
                http: dict[str, str | int] = {
                    "http.request.method": method,
                    "http.route": route,
                    "http.response.status_code": status,
                }
                span.set_attributes(http)
                if status >= _SERVER_ERROR:
                    span.set_status(StatusCode.ERROR)
                return _write(None)

            yield end

    @contextmanager
    def _span(self, name: str, parent: Context, kind: SpanKind) -> Iterator[trace.Span]:
        """Record the block, with the ids that it noted. Of an exception only that there was one: its text has values."""
        with self._tracer.start_as_current_span(
            name, parent, kind, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield span
            except BaseException:
                span.set_status(StatusCode.ERROR)
                raise
            finally:
                span.set_attributes(_attributes(log_context.current().ids))


def _attributes(ids: Mapping[str, str]) -> dict[str, str]:
    return {f"reviewqueue.{name}": text for name, text in ids.items()}


def _read(parent: str) -> Context:
    """Return the context that the header names; an empty one if it is missing or malformed."""
    return _FORMAT.extract({_HEADER: parent}, Context())


def _write(context: Context | None) -> str:
    carrier: dict[str, str] = {}
    _FORMAT.inject(carrier, context)
    return carrier.get(_HEADER, "")


def export_by_otlp() -> SpanProcessor:
    """Return a processor that sends spans by OTLP over HTTP, once a second."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    return BatchSpanProcessor(OTLPSpanExporter(), schedule_delay_millis=1000)
