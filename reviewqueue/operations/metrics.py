"""`/metrics` for Prometheus: open requests, decisions, unknown outcomes, and whether the workers keep up.

Every value is counted in the database on request, so all web processes report the same and a restart loses nothing. Access
needs `METRICS_TOKEN`, or a client on this machine without a proxy. No metric names a person, a run or a request.
"""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Iterable, Iterator
from datetime import datetime

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.db.models import Count, Min, QuerySet, Sum
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_safe
from django_q.models import OrmQ
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ledger import clock
from ledger.models import Effect
from ledger.states import EffectStatus
from reviewqueue.models import MessageStatus, NotificationMessage
from reviewqueue.operations import health
from reviewqueue.queries.dead_letters import filter_dead_signals
from reviewqueue.webhooks.models import Delivery, DeliveryStatus
from runs import interrupts
from runs.models import Continuation, Decision, Event, Hold, Interrupt, Run, Signal
from runs.states import OPEN_CONTINUATIONS, InterruptStatus
from runs.unclaimed_continuations import count_unclaimed_by_version

_PROXY_HEADERS = ("HTTP_X_FORWARDED_FOR", "HTTP_FORWARDED", "HTTP_X_REAL_IP", "HTTP_VIA")


@login_not_required
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Answer every metric in the text format of Prometheus; 404 to strangers while no token is set, else 401."""
    if not _may_read(request):
        if not settings.METRICS_TOKEN:
            raise Http404
        return HttpResponse("This page needs a bearer token.\n", status=401, headers={"WWW-Authenticate": "Bearer"})
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Metrics())
    return HttpResponse(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)


def _may_read(request: HttpRequest) -> bool:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if settings.METRICS_TOKEN and scheme.lower() == "bearer":
        return secrets.compare_digest(token.strip().encode(), settings.METRICS_TOKEN.encode())
    return _is_from_this_machine(request)


def _is_from_this_machine(request: HttpRequest) -> bool:
    """Return whether the client is on this machine. A proxy on this machine would make every client seem so."""
    if settings.TRUSTED_PROXY_COUNT or any(name in request.META for name in _PROXY_HEADERS):
        return False
    try:
        return ipaddress.ip_address(request.META.get("REMOTE_ADDR", "")).is_loopback
    except ValueError:
        return False


class Metrics(Collector):
    """Counts in the database at each collection."""

    def describe(self) -> Iterable[Metric]:
        """Return nothing, so that registering runs no query."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield every metric, with ages at one time."""
        now = clock.now()
        yield from _interrupts(now)
        yield from _runs(now)
        yield from _effects()
        yield from _messages(now)
        yield from _worker(now)


def _interrupts(now: datetime) -> Iterator[Metric]:
    waiting = Interrupt.objects.filter(status=InterruptStatus.WAITING)
    of_queue = waiting.values("queue__slug").annotate(number=Count("pk"), first=Min("created_at")).order_by("queue")
    count = GaugeMetricFamily("reviewqueue_waits_open", "Open requests (interrupts).", labels=["queue"])
    age = GaugeMetricFamily(
        "reviewqueue_wait_oldest_age", "Age of the oldest open request.", labels=["queue"], unit="seconds"
    )
    for row in of_queue:
        count.add_metric([row["queue__slug"]], row["number"])
        age.add_metric([row["queue__slug"]], (now - row["first"]).total_seconds())
    yield count
    yield age
    overdue = waiting.filter(interrupts.due_interrupts(before=now)).count()
    yield GaugeMetricFamily(
        "reviewqueue_waits_overdue", "Open requests past their deadline that no sweep has expired yet.", overdue
    )
    closed = Interrupt.objects.exclude(status=InterruptStatus.WAITING)
    yield _counter("reviewqueue_waits_closed", "Closed requests, by final status.", closed, "status")
    yield _counter(
        "reviewqueue_decisions",
        "Submitted decisions, by status and refusal code.",
        Decision.objects.all(),
        "status",
        "code",
    )


def _runs(now: datetime) -> Iterator[Metric]:
    live = Run.objects.filter(ended_at=None)
    yield _gauge("reviewqueue_runs_live", "Runs that have not ended, by status.", live, "status")
    yield _counter("reviewqueue_runs_ended", "Ended runs, by status.", Run.objects.exclude(ended_at=None), "status")
    open_ones = Continuation.objects.filter(status__in=OPEN_CONTINUATIONS)
    yield _gauge("reviewqueue_continuations_open", "Open continuations, by status.", open_ones, "status")
    offered = count_unclaimed_by_version(Run.objects.all(), now=now)
    first = min((of_version.offered_since for of_version in offered), default=now)
    yield GaugeMetricFamily(
        "reviewqueue_continuation_ready_oldest_age",
        "Age of the oldest continuation that a worker can claim.",
        (now - first).total_seconds(),
        unit="seconds",
    )
    text = "Runs ready to continue that no worker has claimed in time."
    unclaimed = GaugeMetricFamily("reviewqueue_runs_unclaimed", text, labels=["agent", "code_version"])
    for of_version in offered:
        unclaimed.add_metric([of_version.agent, of_version.code_version], of_version.runs)
    yield unclaimed
    holds = Hold.objects.filter(lifted_at=None)
    yield _gauge("reviewqueue_holds_open", "Open holds of runs, by kind.", holds, "kind")


def _effects() -> Iterator[Metric]:
    unknown = Effect.objects.filter(status=EffectStatus.UNKNOWN).count()
    yield GaugeMetricFamily("reviewqueue_effects_unknown", "Effects with an unknown outcome.", unknown)
    skipped = Continuation.objects.aggregate(skipped=Sum("effects_skipped"))["skipped"] or 0
    yield CounterMetricFamily(
        "reviewqueue_effects_skipped", "Effects not repeated, because their recorded outcome was returned.", skipped
    )


def _messages(now: datetime) -> Iterator[Metric]:
    open_ones = Delivery.objects.filter(status__in=[DeliveryStatus.DUE, DeliveryStatus.DEAD])
    text = "Webhook messages that are due, and dead letters."
    yield _gauge("reviewqueue_deliveries", text, open_ones, "status")
    unsent = NotificationMessage.objects.filter(status__in=[MessageStatus.DUE, MessageStatus.DEAD])
    text = "Notifications by mail and chat that are due, and dead letters."
    yield _gauge("reviewqueue_notifications", text, unsent, "channel", "status")
    dead = filter_dead_signals(Signal.objects.all(), now=now).count()
    yield GaugeMetricFamily(
        "reviewqueue_signals_dead", "Signals that matched no request and that no lead has dismissed.", dead
    )
    first = Event.objects.filter(announced_at=None).aggregate(first=Min("at"))["first"]
    yield GaugeMetricFamily(
        "reviewqueue_unannounced_oldest_age",
        "Age of the oldest event without a number in the feed and without webhook messages.",
        (now - first).total_seconds() if first else 0,
        unit="seconds",
    )


def _worker(now: datetime) -> Iterator[Metric]:
    silence = health.heartbeat_age(now=now)
    age = GaugeMetricFamily("reviewqueue_worker_silence", "Age of the newest heartbeat of a worker.", unit="seconds")
    if silence is not None:  # without any worker the metric is absent: alert on its absence
        age.add_metric([], silence.total_seconds())
    yield age
    yield GaugeMetricFamily("reviewqueue_tasks_queued", "Tasks that are queued or running.", OrmQ.objects.count())
    lag = health.task_queue_lag(now=now).total_seconds()
    yield GaugeMetricFamily("reviewqueue_task_lag", "Waiting time of the oldest queued task.", lag, unit="seconds")


def _gauge(name: str, text: str, rows: QuerySet, *labels: str) -> Metric:
    return _grouped(GaugeMetricFamily(name, text, labels=labels), rows, labels)


def _counter(name: str, text: str, rows: QuerySet, *labels: str) -> Metric:
    return _grouped(CounterMetricFamily(name, text, labels=labels), rows, labels)


def _grouped(family: GaugeMetricFamily | CounterMetricFamily, rows: QuerySet, labels: tuple[str, ...]) -> Metric:
    for row in rows.values(*labels).annotate(number=Count("pk")).order_by(*labels):
        family.add_metric([row[label] for label in labels], row["number"])
    return family
