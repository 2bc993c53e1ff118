"""Counts and durations of requests by method and route pattern, for `/metrics`. A request costs microseconds."""

from __future__ import annotations

import functools
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

from django.conf import settings
from django.urls import URLPattern, URLResolver, get_resolver

from reviewqueue.serving.shared_counters import SharedCounters

#: The key in the request's ``META`` of the pattern that its path matched.
ROUTE = "reviewqueue.route"
STATIC, UNKNOWN = "static", "unknown"
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "other")
STATUSES = ("2xx", "3xx", "4xx", "429", "5xx")
#: Upper bounds in seconds; the last bucket has none.
BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

_SUM = len(STATUSES)
_BUCKETS = _SUM + 1
_WIDTH = _BUCKETS + len(BOUNDS) + 1
#: Columns before those of the routes.
_DATABASE_ERRORS, _OWN = 0, 1


@dataclass(frozen=True, kw_only=True)
class RequestCounts:
    """Requests of one method and route: by status class, seconds in all, and by the bucket of their duration."""

    method: str
    route: str
    by_status: dict[str, int]
    seconds: float
    buckets: list[int]


def route_of(environ: dict[str, object]) -> str:
    """Return the pattern that the path matched; never the path, which can contain a secret."""
    if str(environ.get("PATH_INFO", "")).startswith(settings.STATIC_URL):
        return STATIC
    return str(environ.get(ROUTE) or UNKNOWN)


def method_of(environ: dict[str, object]) -> str:
    method = str(environ["REQUEST_METHOD"])
    return method if method in METHODS else METHODS[-1]


def count_request(environ: dict[str, object], *, status: int, seconds: float) -> None:
    """Count a request that took these seconds, without those in which a long poll waited."""
    line = _lines().get(route_of(environ), 0) * len(METHODS) + METHODS.index(method_of(environ))
    first = _OWN + line * _WIDTH
    kind = STATUSES.index("429" if status == 429 else f"{max(2, min(status // 100, 5))}xx")
    bucket = _BUCKETS + bisect_left(BOUNDS, seconds)
    counters().add([(first + kind, 1), (first + _SUM, seconds), (first + bucket, 1)])


def count_database_error() -> None:
    """Count a statement or connection that failed because the database did not answer."""
    counters().add([(_DATABASE_ERRORS, 1)])


def database_errors() -> int:
    return int(counters().sums(_DATABASE_ERRORS, 1)[0])


def list_requests() -> Iterator[RequestCounts]:
    """Yield the counts of every method and route that was requested."""
    for route, place in _lines().items():
        row = counters().sums(_OWN + place * len(METHODS) * _WIDTH, len(METHODS) * _WIDTH)
        for number, method in enumerate(METHODS):
            line = row[number * _WIDTH : (number + 1) * _WIDTH]
            if not any(line[:_SUM]):
                continue
            by_status = {status: int(count) for status, count in zip(STATUSES, line[:_SUM], strict=True) if count}
            buckets = [int(count) for count in line[_BUCKETS:]]
            yield RequestCounts(method=method, route=route, by_status=by_status, seconds=line[_SUM], buckets=buckets)


@functools.cache
def counters() -> SharedCounters:
    """Return the counters of this process and those that are forked from it: call it once before the fork."""
    # Twice as many as processes: an old process can end while its successor already works.
    return SharedCounters(columns=_OWN + len(_lines()) * len(METHODS) * _WIDTH, places=2 * settings.WEB_PROCESSES + 1)


@functools.cache
def _lines() -> dict[str, int]:
    """Return the number of each route pattern."""
    routes = dict.fromkeys([UNKNOWN, STATIC, *_patterns(get_resolver())])
    return {route: number for number, route in enumerate(routes)}


def _patterns(resolver: URLResolver, before: str = "") -> Iterator[str]:
    """Yield every pattern as ``ResolverMatch.route`` has it."""
    for found in resolver.url_patterns:
        pattern = str(found.pattern)
        route = before + (pattern.removeprefix("^") if before else pattern)
        if isinstance(found, URLPattern):
            yield route
        else:
            yield from _patterns(found, route)
