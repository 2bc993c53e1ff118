"""`/metrics` for Prometheus: what waits, what was decided, what is in doubt, and whether the workers keep up.

Every figure is counted in the database when it is asked for: any number of web processes tell the same, and a restart
forgets nothing. Closed unless `METRICS_TOKEN` is set and sent, or a program on this very machine asks, with no proxy
between. Nothing here names a person, a run or what was asked.
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
from reviewqueue.operations import health
from reviewqueue.queries.dead_letters import left_over
from reviewqueue.webhooks.models import Delivery, DeliveryStatus
from runs import deadlines
from runs.models import Continuation, Decision, Event, Hold, Interrupt, Run, Signal
from runs.states import OPEN_CONTINUATIONS, InterruptStatus
from runs.unclaimed_continuations import unclaimed_by_version

FORWARDED = ("HTTP_X_FORWARDED_FOR", "HTTP_FORWARDED", "HTTP_X_REAL_IP", "HTTP_VIA")


@login_not_required
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Show every measure in the text format of Prometheus; to a stranger there is nothing here."""
    if not _may_read(request):
        if not settings.METRICS_TOKEN:
            raise Http404
        return HttpResponse("A bearer token is needed.\n", status=401, headers={"WWW-Authenticate": "Bearer"})
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Measures())
    return HttpResponse(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)


def _may_read(request: HttpRequest) -> bool:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if settings.METRICS_TOKEN and scheme.lower() == "bearer":
        return secrets.compare_digest(token.strip().encode(), settings.METRICS_TOKEN.encode())
    return _is_from_this_machine(request)


def _is_from_this_machine(request: HttpRequest) -> bool:
    """Tell whether the caller itself is here: behind a proxy on this machine, everybody seems to be."""
    if settings.TRUSTED_PROXY_COUNT or any(name in request.META for name in FORWARDED):
        return False
    try:
        return ipaddress.ip_address(request.META.get("REMOTE_ADDR", "")).is_loopback
    except ValueError:
        return False


class Measures(Collector):
    """Counts when it is collected."""

    def describe(self) -> Iterable[Metric]:
        """Return nothing: registering must not ask the database."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Return every measure, as of one moment."""
        now = clock.now()
        yield from _waits(now)
        yield from _runs(now)
        yield from _effects()
        yield from _messages(now)
        yield from _worker(now)


def _waits(now: datetime) -> Iterator[Metric]:
    waiting = Interrupt.objects.filter(status=InterruptStatus.WAITING)
    of_queue = waiting.values("queue__slug").annotate(number=Count("pk"), first=Min("created_at")).order_by("queue")
    count = GaugeMetricFamily("reviewqueue_waits_open", "Waits that are open.", labels=["queue"])
    age = GaugeMetricFamily(
        "reviewqueue_wait_oldest_age", "Age of the oldest open wait.", labels=["queue"], unit="seconds"
    )
    for row in of_queue:
        count.add_metric([row["queue__slug"]], row["number"])
        age.add_metric([row["queue__slug"]], (now - row["first"]).total_seconds())
    yield count
    yield age
    overdue = waiting.filter(deadlines.due_waits(before=now)).count()
    yield GaugeMetricFamily("reviewqueue_waits_overdue", "Open waits past their deadline, not swept yet.", overdue)
    closed = Interrupt.objects.exclude(status=InterruptStatus.WAITING)
    yield _counter("reviewqueue_waits_closed", "Waits that were closed, by how.", closed, "status")
    yield _counter(
        "reviewqueue_decisions",
        "Submitted answers, accepted and refused, by what became of them.",
        Decision.objects.all(),
        "status",
        "code",
    )


def _runs(now: datetime) -> Iterator[Metric]:
    live = Run.objects.filter(ended_at=None)
    yield _gauge("reviewqueue_runs_live", "Runs that have not ended, by where they stand.", live, "status")
    yield _counter("reviewqueue_runs_ended", "Ended runs, by how.", Run.objects.exclude(ended_at=None), "status")
    open_ones = Continuation.objects.filter(status__in=OPEN_CONTINUATIONS)
    yield _gauge("reviewqueue_continuations_open", "Continuations that are open, by state.", open_ones, "status")
    offered = unclaimed_by_version(Run.objects.all(), now=now)
    first = min((of_version.offered_since for of_version in offered), default=now)
    yield GaugeMetricFamily(
        "reviewqueue_continuation_ready_oldest_age",
        "How long the oldest continuation that may be claimed waits for a worker.",
        (now - first).total_seconds(),
        unit="seconds",
    )
    words = "Runs that may go on and that no worker took for longer than it should take."
    unclaimed = GaugeMetricFamily("reviewqueue_runs_unclaimed", words, labels=["agent", "code_version"])
    for of_version in offered:
        unclaimed.add_metric([of_version.agent, of_version.code_version], of_version.runs)
    yield unclaimed
    holds = Hold.objects.filter(lifted_at=None)
    yield _gauge("reviewqueue_holds_open", "Reasons why runs may not go on, by kind.", holds, "kind")


def _effects() -> Iterator[Metric]:
    unknown = Effect.objects.filter(status=EffectStatus.UNKNOWN).count()
    yield GaugeMetricFamily("reviewqueue_effects_unknown", "Effects whose outcome nobody knows.", unknown)
    skipped = Continuation.objects.aggregate(skipped=Sum("effects_skipped"))["skipped"] or 0
    yield CounterMetricFamily(
        "reviewqueue_effects_skipped", "Effects not done again: the recorded outcome was given.", skipped
    )


def _messages(now: datetime) -> Iterator[Metric]:
    open_ones = Delivery.objects.filter(status__in=[DeliveryStatus.DUE, DeliveryStatus.DEAD])
    words = "Messages of webhooks that are on their way, and dead letters."
    yield _gauge("reviewqueue_deliveries", words, open_ones, "status")
    dead = left_over(Signal.objects.all(), now=now).count()
    yield GaugeMetricFamily("reviewqueue_signals_dead", "Signals that no wait took, and nobody has dismissed.", dead)
    first = Event.objects.filter(announced_at=None).aggregate(first=Min("at"))["first"]
    yield GaugeMetricFamily(
        "reviewqueue_unannounced_oldest_age",
        "How long the oldest event waits for its place in the feed and its messages.",
        (now - first).total_seconds() if first else 0,
        unit="seconds",
    )


def _worker(now: datetime) -> Iterator[Metric]:
    silence = health.silence_of_workers(now=now)
    heard = GaugeMetricFamily("reviewqueue_worker_silence", "Time since a worker's cluster did a task.", unit="seconds")
    if silence is not None:  # without any worker there is no such time: alert on its absence
        heard.add_metric([], silence.total_seconds())
    yield heard
    yield GaugeMetricFamily("reviewqueue_tasks_queued", "Tasks that are queued or being done.", OrmQ.objects.count())
    lag = health.lag_of_tasks(now=now).total_seconds()
    yield GaugeMetricFamily("reviewqueue_task_lag", "How long the oldest task waits to be taken.", lag, unit="seconds")


def _gauge(name: str, words: str, rows: QuerySet, *labels: str) -> Metric:
    return _grouped(GaugeMetricFamily(name, words, labels=labels), rows, labels)


def _counter(name: str, words: str, rows: QuerySet, *labels: str) -> Metric:
    return _grouped(CounterMetricFamily(name, words, labels=labels), rows, labels)


def _grouped(family: GaugeMetricFamily | CounterMetricFamily, rows: QuerySet, labels: tuple[str, ...]) -> Metric:
    for row in rows.values(*labels).annotate(number=Count("pk")).order_by(*labels):
        family.add_metric([row[label] for label in labels], row["number"])
    return family
