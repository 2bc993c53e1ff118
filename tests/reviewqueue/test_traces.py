"""Traces: one from the agent's request to people over its answer or expiry to the claim; nothing without `TRACING`."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.test import Client
from opentelemetry import baggage, context
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode, format_span_id, format_trace_id, get_current_span
from reviewqueue_client.traces import continued_trace, trace_headers

from ledger import clock
from ledger.log_context import current, note_ids
from ledger.trace_context import use_tracer
from reviewqueue import tasks
from reviewqueue.serving.tracing import OpenTelemetryTracer
from runs.models import Continuation, Interrupt
from tests import builders, own_processes
from tests.api.calls import Caller, a_reviewer_client, a_waiting_interrupt, a_worker, the_approval

pytestmark = pytest.mark.django_db

OF_AGENT = "4bf92f3577b34da6a3ce929d0e0e4736"
OF_REVIEWER = "0af7651916cd43dd8448eb211c80319c"


@pytest.fixture
def exporter() -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    use_tracer(OpenTelemetryTracer(lambda: SimpleSpanProcessor(exporter)))
    yield exporter
    use_tracer(None)


class TracedCaller(Caller):
    """Sends every call in a trace of its own."""

    trace = OF_AGENT

    def call(self, *given, **named):
        return super().call(*given, **named, traceparent=f"00-{self.trace}-00f067aa0ba902b7-01")


def traced(caller: Caller, trace: str) -> Caller:
    caller.__class__ = TracedCaller
    caller.trace = trace
    return caller


def trace_of(span: ReadableSpan) -> str:
    return format_trace_id(span.context.trace_id)


def spans_of(exporter: InMemorySpanExporter, trace: str) -> dict[str, ReadableSpan]:
    return {span.name: span for span in exporter.get_finished_spans() if trace_of(span) == trace}


def parent_of(span: ReadableSpan) -> str:
    return format_span_id(span.parent.span_id) if span.parent else ""


def id_of(span: ReadableSpan) -> str:
    return format_span_id(span.context.span_id)


def test_one_trace_leads_from_the_request_over_the_answer_to_the_claim(exporter):
    worker, ana = traced(a_worker(), OF_AGENT), traced(a_reviewer_client(), OF_REVIEWER)
    interrupt, run = a_waiting_interrupt(worker, the_approval())
    assert Interrupt.objects.get(public_id=interrupt).trace_parent.split("-")[1] == OF_AGENT
    assert ana.post(f"interrupts/{interrupt}/decisions", {"state_version": 1, "verdict": "approve"}).status == 201
    [claimed] = worker.post("continuations/claim", {}).body
    found, of_reviewer = spans_of(exporter, OF_AGENT), spans_of(exporter, OF_REVIEWER)
    suspended = found["POST api/v1/runs/<id:run_id>/interrupts"]
    decided = of_reviewer["POST api/v1/interrupts/<id:interrupt_id>/decisions"]
    answer, claim = found["answer"], found["claim"]
    assert (parent_of(answer), parent_of(claim)) == (id_of(suspended), id_of(answer))
    assert [id_of(link) for link in answer.links] == [id_of(decided)]
    assert [id_of(link) for link in claim.links] == [id_of(found["POST api/v1/continuations/claim"])]
    assert claimed["traceparent"] == f"00-{OF_AGENT}-{id_of(answer)}-01"
    named = {"reviewqueue.run": run, "reviewqueue.interrupt": interrupt}
    assert named.items() <= dict(answer.attributes).items()
    assert dict(decided.attributes)["http.response.status_code"] == 201
    assert "Zq7" not in str([dict(span.attributes) for span in exporter.get_finished_spans()])


def test_an_expiry_in_a_worker_belongs_to_the_trace_of_its_request(exporter):
    worker = traced(a_worker(), OF_AGENT)
    interrupt, _ = a_waiting_interrupt(worker)
    row = Interrupt.objects.get(public_id=interrupt)
    builders.move_deadline(row, clock.now() - timedelta(seconds=1))
    tasks.sweep()
    found = spans_of(exporter, OF_AGENT)
    [task] = [span for span in exporter.get_finished_spans() if span.name == "sweep"]
    assert trace_of(task) != OF_AGENT
    assert [id_of(link) for link in found["expire"].links] == [id_of(task)]
    assert parent_of(found["expire"]) == id_of(found["POST api/v1/runs/<id:run_id>/interrupts"])


def test_a_response_names_its_trace_and_a_malformed_header_begins_a_new_one(exporter):
    reply = a_worker().get("agents/me", traceparent=f"00-{OF_AGENT}-00f067aa0ba902b7-01")
    assert reply.headers["traceparent"].split("-")[1] == OF_AGENT
    reply = a_worker().get("agents/me", traceparent="00-nonsense")
    assert reply.headers["traceparent"].split("-")[1] not in (OF_AGENT, "nonsense")


def test_nothing_is_recorded_without_tracing():
    worker, ana = traced(a_worker(), OF_AGENT), a_reviewer_client()
    interrupt, _ = a_waiting_interrupt(worker, the_approval())
    assert ana.post(f"interrupts/{interrupt}/decisions", {"state_version": 1, "verdict": "approve"}).status == 201
    reply = worker.post("continuations/claim", {})
    assert [claim["traceparent"] for claim in reply.body] == [None]
    assert "traceparent" not in reply.headers
    assert not Interrupt.objects.exclude(trace_parent=None)
    assert not Continuation.objects.exclude(trace_parent=None)


def test_the_python_client_sends_the_trace_of_the_program_and_continues_that_of_a_claim():
    assert trace_headers() == {}
    given = f"00-{OF_AGENT}-00f067aa0ba902b7-01"
    with continued_trace(given):
        assert trace_headers()["traceparent"] == given
    with continued_trace(None):
        assert not get_current_span().get_span_context().is_valid


def test_the_python_client_sends_no_baggage():
    token = context.attach(baggage.set_baggage("customer", "K-17"))
    try:
        with continued_trace(f"00-{OF_AGENT}-00f067aa0ba902b7-01"):
            assert list(trace_headers()) == ["traceparent"]
    finally:
        context.detach(token)


@pytest.mark.slow
def test_tracing_without_the_exporter_is_refused_in_one_sentence(tmp_path):
    environment = own_processes.environment_for("sqlite:///none.sqlite3", TRACING="1")
    with pytest.raises(AssertionError, match=r"pip install 'reviewqueue\[otel\]'"):
        own_processes.run_command("check", environment=environment)


def test_a_request_without_a_key_does_not_choose_its_trace(exporter):
    for path in ("/account/login/", "/healthz"):
        given = {"traceparent": f"00-{OF_AGENT}-00f067aa0ba902b7-01", "tracestate": "planted=1"}
        assert OF_AGENT not in Client().get(path, headers=given)["traceparent"]
    assert not spans_of(exporter, OF_AGENT)
    assert not any("planted" in str(span.context.trace_state) for span in exporter.get_finished_spans())


def test_a_span_of_a_failed_task_has_its_ids_and_not_the_text_of_the_exception(exporter):
    def fails() -> None:
        note_ids(run="run_1")
        raise RuntimeError("planted")

    with pytest.raises(RuntimeError):
        tasks.entry_point(fails)()
    [span] = exporter.get_finished_spans()
    assert dict(span.attributes)["reviewqueue.run"] == "run_1"
    assert (span.status.status_code, span.status.description, span.events) == (StatusCode.ERROR, None, ())


def test_a_failed_task_is_logged_with_its_ids_once(caplog):
    def fails() -> None:
        note_ids(run="run_1")
        raise RuntimeError("planted")

    seen: list[dict[str, str]] = []

    class Ids(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append(dict(current().ids))

    handler = Ids()
    logging.getLogger("reviewqueue.tasks").addHandler(handler)
    try:
        with pytest.raises(RuntimeError):
            tasks.entry_point(fails)()
    finally:
        logging.getLogger("reviewqueue.tasks").removeHandler(handler)
    [record] = [it for it in caplog.records if it.name == "reviewqueue.tasks"]
    assert record.exc_info is not None
    assert seen[0]["run"] == "run_1"
    caplog.clear()
    logging.getLogger("django-q").error(f"Failed 'x' (y) - planted : File {tasks.__file__}")
    logging.getLogger("django-q").error("Failed 'x' (y) - Function x is not defined")
    assert [it.getMessage() for it in caplog.records if it.name == "django-q"] == [
        "Failed 'x' (y) - Function x is not defined"
    ]
