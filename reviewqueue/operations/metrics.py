"""`/metrics` for Prometheus: open requests, decisions, unknown outcomes, and whether the workers keep up.

A worker counts the tables (``rollups``), and ``reviewqueue_counts_age_seconds`` says how long ago. So a scrape costs the
same beside few rows and many, and all web processes report the same. What must be seen while no worker counts is read at
each scrape. Requests are counted by each node for itself (``serving.http_metrics``), and shown also while the database is
away. Access needs `METRICS_TOKEN`, or a client on this machine without a proxy. No metric names a person, a run or a
request.
"""

from __future__ import annotations

import ipaddress
import itertools
import logging
import secrets
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from datetime import datetime
from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.db import DatabaseError, InterfaceError, connection
from django.db.models import OuterRef, Subquery
from django.http import Http404, HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe
from django_q.models import OrmQ
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from ledger import clock
from reviewqueue.operations import health
from reviewqueue.queries.dead_letters import filter_dead_signals
from reviewqueue.rollups import cells, counting
from reviewqueue.rollups.cells import Cell
from reviewqueue.serving import http_metrics
from runs import interrupts
from runs.models import Agent, Event, Interrupt, Queue, Signal

log = logging.getLogger(__name__)

#: Overdue requests and dead signals are counted up to this number.
MAX_COUNTED = 1_000
#: Code versions of unclaimed runs that have a series of their own, for each agent; the others share one.
MAX_VERSIONS, OTHER_VERSIONS = 5, "(other)"
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
    """Reads this node's counts of requests, and the counts in the database, at each collection."""

    def describe(self) -> Iterable[Metric]:
        """Return nothing, so that registering runs no query."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield every metric; while the database is away, those of this node."""
        try:
            counted = list(_of_database())
        except (DatabaseError, InterfaceError) as problem:
            log.warning("The database did not answer a scrape: %s", str(problem).partition("\n")[0])
            http_metrics.count_database_error()
            connection.close()
            counted = []
        is_up = GaugeMetricFamily(
            "reviewqueue_database_up", "Whether the database answered this scrape.", bool(counted)
        )
        yield from (*_of_node(), is_up, *counted)


def _of_node() -> Iterator[Metric]:
    requests = CounterMetricFamily(
        "reviewqueue_http_requests", "Requests to this node.", labels=["method", "route", "status"]
    )
    seconds = CounterMetricFamily(
        "reviewqueue_http_request_seconds", "Duration of these requests together.", labels=["method", "route"]
    )
    for line in http_metrics.list_requests():
        for status, number in line.by_status.items():
            requests.add_metric([line.method, line.route, status], number)
        seconds.add_metric([line.method, line.route], line.seconds)
    durations = HistogramMetricFamily(
        "reviewqueue_http_request_duration",
        "Duration of requests to this node, without the time in which a long poll waits.",
        labels=["area"],
        unit="seconds",
    )
    bounds = [*map(str, http_metrics.BOUNDS), "+Inf"]
    for area in http_metrics.list_durations():
        buckets = list(zip(bounds, itertools.accumulate(area.buckets), strict=True))
        durations.add_metric([area.area], buckets, area.seconds)
    yield seconds
    yield requests
    yield durations
    text = "Requests and scrapes of this node that failed because the database did not answer."
    yield CounterMetricFamily("reviewqueue_database_errors", text, http_metrics.database_errors())
    text = "Free bytes on the disk of each folder that this node writes to."
    free = GaugeMetricFamily("reviewqueue_disk_free", text, labels=["folder"], unit="bytes")
    for folder, number in health.free_bytes().items():
        free.add_metric([folder.replace(" ", "_")], number)
    yield free


def _of_database() -> Iterator[Metric]:
    before = timezone.now()
    now = clock.now()
    text = "How far this node's clock is ahead of the database's; negative if it is behind."
    ahead = (before + (timezone.now() - before) / 2 - now).total_seconds()
    yield GaugeMetricFamily("reviewqueue_clock_ahead", text, ahead, unit="seconds")
    yield from _counted(now)


def _counted(now: datetime) -> Iterator[Metric]:
    present = _Sums(counting.read_present(now=now))
    totals = _Sums(counting.read_totals())
    yield from _interrupts(present, totals, now)
    yield from _runs(present, totals, now)
    yield from _messages(present, now)
    yield from _worker(now)


class _Sums:
    """Sums of cells."""

    def __init__(self, counted: Iterable[Cell]) -> None:
        self._cells: dict[str, list[Cell]] = {}
        for cell in counted:
            self._cells.setdefault(cell.measure, []).append(cell)

    def of(self, measure: str) -> list[Cell]:
        return self._cells.get(measure, [])

    def by(self, measure: str, key: Callable[[Cell], Hashable]) -> list[tuple[Any, int]]:
        """Return the sums of a measure by a key, sorted."""
        sums: Counter[Any] = Counter()
        for cell in self.of(measure):
            sums[key(cell)] += cell.number
        return sorted(sums.items())

    def all(self, measure: str) -> int:
        return sum(cell.number for cell in self.of(measure))


def _interrupts(present: _Sums, totals: _Sums, now: datetime) -> Iterator[Metric]:
    slugs = {str(pk): slug for pk, slug in Queue.objects.values_list("pk", "slug")}
    count = GaugeMetricFamily("reviewqueue_waits_open", "Open requests (interrupts).", labels=["queue"])
    age = GaugeMetricFamily(
        "reviewqueue_wait_oldest_age", "Age of the oldest open request.", labels=["queue"], unit="seconds"
    )
    for queue, number in present.by(cells.OPEN, lambda cell: slugs.get(cell.queues, "")):
        count.add_metric([queue], number)
        firsts = (cell.bucket for cell in present.of(cells.OLDEST) if slugs.get(cell.queues, "") == queue)
        # A worker can have replaced the cells between the two reads: then there can be a number without a time.
        age.add_metric([queue], now.timestamp() - min(firsts, default=now.timestamp()))
    yield count
    yield age
    # In the order of its index: by an estimate alone, PostgreSQL reads all open requests.
    overdue = Interrupt.objects.filter(interrupts.due_interrupts(before=now)).order_by("deadline")[:MAX_COUNTED].count()
    yield GaugeMetricFamily(
        "reviewqueue_waits_overdue",
        f"Open requests past their deadline that no sweep has expired yet, up to {MAX_COUNTED}.",
        overdue,
    )
    yield _counter("reviewqueue_waits_closed", "Closed requests, by final status.", totals, cells.CLOSED, "status")
    text = "Submitted decisions, by status and refusal code."
    yield _counter("reviewqueue_decisions", text, totals, cells.DECISIONS, "status", "code")


def _runs(present: _Sums, totals: _Sums, now: datetime) -> Iterator[Metric]:
    text = "Runs that have not ended, by status."
    yield _gauge("reviewqueue_runs_live", text, present, counting.LIVE_RUNS, "status")
    yield _counter("reviewqueue_runs_ended", "Ended runs, by status.", totals, cells.ENDED, "status")
    text = "Open continuations, by status."
    yield _gauge("reviewqueue_continuations_open", text, present, counting.CONTINUATIONS, "status")
    offered = present.of(counting.OFFERED)
    yield GaugeMetricFamily(
        "reviewqueue_continuation_ready_oldest_age",
        "Age of the oldest continuation that a worker can claim.",
        max((now.timestamp() - cell.bucket for cell in offered), default=0),
        unit="seconds",
    )
    agents = dict(Agent.objects.filter(pk__in={cell.agent for cell in offered}).values_list("pk", "slug"))
    text = "Runs ready to continue that no worker has claimed in time."
    unclaimed = GaugeMetricFamily("reviewqueue_runs_unclaimed", text, labels=["agent", "code_version"])
    for agent, of_versions in sorted(_by_agent(offered, agents).items()):
        for version, number in _largest(of_versions, OTHER_VERSIONS):
            unclaimed.add_metric([agent, version], number)
    yield unclaimed
    yield _gauge("reviewqueue_holds_open", "Open holds of runs, by kind.", present, counting.HOLDS, "kind")
    text = "Effects with an unknown outcome."
    yield GaugeMetricFamily("reviewqueue_effects_unknown", text, present.all(cells.UNKNOWN))
    yield CounterMetricFamily(
        "reviewqueue_effects_skipped",
        "Effects not repeated, because their recorded outcome was returned.",
        totals.all(cells.SKIPPED),
    )


def _by_agent(offered: list[Cell], agents: dict[int, str]) -> dict[str, Counter[str]]:
    """Return the number of unclaimed runs by code version, of each agent."""
    found: dict[str, Counter[str]] = {}
    for cell in offered:
        found.setdefault(agents.get(cell.agent, ""), Counter())[cell.part] += cell.number
    return found


def _largest(numbers: Counter[str], others: str) -> list[tuple[str, int]]:
    """Return the largest numbers, and the sum of the others under the name ``others``, so that a label stays bounded."""
    in_order = sorted(numbers.items(), key=lambda pair: (-pair[1], pair[0]))
    shown = Counter(dict(in_order[:MAX_VERSIONS]))
    if in_order[MAX_VERSIONS:]:
        shown[others] += sum(number for _, number in in_order[MAX_VERSIONS:])
    return sorted(shown.items())


def _messages(present: _Sums, now: datetime) -> Iterator[Metric]:
    text = "Webhook messages that are due, and dead letters."
    yield _gauge("reviewqueue_deliveries", text, present, counting.DELIVERIES, "status")
    text = "Notifications by mail and chat that are due, and dead letters."
    yield _gauge("reviewqueue_notifications", text, present, counting.NOTIFICATIONS, "channel", "status")
    yield GaugeMetricFamily(
        "reviewqueue_signals_dead",
        f"Signals that matched no request and that no lead has dismissed, up to {MAX_COUNTED}.",
        filter_dead_signals(Signal.objects.all(), now=now)[:MAX_COUNTED].count(),
    )
    unannounced = Event.objects.filter(agent=OuterRef("pk"), announced_at=None).order_by("id")
    firsts = Agent.objects.annotate(first=Subquery(unannounced.values("at")[:1])).values_list("first", flat=True)
    first = min((at for at in firsts if at is not None), default=now)
    yield GaugeMetricFamily(
        "reviewqueue_unannounced_oldest_age",
        "Age of the oldest event without a number in the feed and without webhook messages.",
        (now - first).total_seconds(),
        unit="seconds",
    )


def _worker(now: datetime) -> Iterator[Metric]:
    silence = health.heartbeat_age(now=now)
    age = GaugeMetricFamily("reviewqueue_worker_silence", "Age of the newest heartbeat of a worker.", unit="seconds")
    if silence is not None:  # without any worker the metric is absent: alert on its absence
        age.add_metric([], silence.total_seconds())
    yield age
    beating = health.count_workers(now=now)
    yield GaugeMetricFamily("reviewqueue_workers", "Workers with a heartbeat in the last minute.", beating)
    yield GaugeMetricFamily("reviewqueue_tasks_queued", "Tasks that are queued or running.", OrmQ.objects.count())
    lag = health.task_queue_lag(now=now).total_seconds()
    yield GaugeMetricFamily("reviewqueue_task_lag", "Waiting time of the oldest queued task.", lag, unit="seconds")
    counted_at = counting.counted_at()
    counts = GaugeMetricFamily("reviewqueue_counts_age", "Age of the counts that a worker keeps.", unit="seconds")
    if counted_at is not None:
        counts.add_metric([], (now - counted_at).total_seconds())
    yield counts


def _gauge(name: str, text: str, counted: _Sums, measure: str, *labels: str) -> Metric:
    return _by_part(GaugeMetricFamily(name, text, labels=labels), counted, measure)


def _counter(name: str, text: str, counted: _Sums, measure: str, *labels: str) -> Metric:
    return _by_part(CounterMetricFamily(name, text, labels=labels), counted, measure)


def _by_part(family: GaugeMetricFamily | CounterMetricFamily, counted: _Sums, measure: str) -> Metric:
    """Add a value for each part of a measure; the items of the part are the labels, and further items are left out."""
    places = len(family._labelnames)
    for labels, number in counted.by(measure, lambda cell: tuple(cell.part.split(" ")[:places])):
        family.add_metric(labels, number)
    return family
