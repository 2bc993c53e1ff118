"""Counts of requests by method and route, and their durations by area, for `/metrics`. A request costs microseconds.

A histogram for each route would be most of a scrape: 14 series for each method.
"""

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
_ADMIN, _API, _PROBES = "admin/", "api/v1/", frozenset({"healthz", "readyz", "metrics"})
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "other")
STATUSES = ("2xx", "3xx", "4xx", "429", "5xx")
#: The methods that are counted; HEAD counts as GET.
COUNTED_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "other")
#: Refused before the method matters, so anybody can send any method: without a valid key, or a method without a view.
_REFUSED_EARLY = frozenset({401, 405})
#: What durations are grouped by.
AREAS = ("api", "page", "admin", "static", "probe", "unknown")
#: Upper bounds in seconds; the last bucket has none.
BOUNDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

#: The columns of an area: its buckets, and seconds in all.
_AREA_WIDTH = len(BOUNDS) + 2
#: The columns of a method and route: a number for each status, and seconds in all.
_WIDTH = len(STATUSES) + 1
#: Columns before those of the areas and those of the routes.
_DATABASE_ERRORS, _OF_AREAS = 0, 1
_OWN = _OF_AREAS + len(AREAS) * _AREA_WIDTH


@dataclass(frozen=True, kw_only=True)
class RequestCounts:
    """Requests of one method and route: by status class, and seconds in all."""

    method: str
    route: str
    by_status: dict[str, int]
    seconds: float


@dataclass(frozen=True, kw_only=True)
class AreaDurations:
    """Requests of an area by the bucket of their duration, and seconds in all."""

    area: str
    buckets: list[int]
    seconds: float


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
    route = counted_route(route_of(environ))
    method = _counted_method(environ, status)
    first = _OWN + (_lines().get(route, 0) * len(COUNTED_METHODS) + COUNTED_METHODS.index(method)) * _WIDTH
    kind = STATUSES.index("429" if status == 429 else f"{max(2, min(status // 100, 5))}xx")
    area = _OF_AREAS + AREAS.index(area_of(route)) * _AREA_WIDTH
    bucket = area + bisect_left(BOUNDS, seconds)
    last, last_of_area = first + _WIDTH - 1, area + _AREA_WIDTH - 1
    counters().add([(first + kind, 1), (last, seconds), (bucket, 1), (last_of_area, seconds)])


def counted_route(route: str) -> str:
    """Return the route that a request is counted under: all pages of the admin site are one."""
    return _ADMIN if route.startswith(_ADMIN) else route


def area_of(route: str) -> str:
    """Return the area of a counted route."""
    if route.startswith(_API):
        return "api"
    return {_ADMIN: "admin", STATIC: "static", UNKNOWN: "unknown"}.get(route, "probe" if route in _PROBES else "page")


def _counted_method(environ: dict[str, object], status: int) -> str:
    method = "GET" if environ["REQUEST_METHOD"] == "HEAD" else method_of(environ)
    return method if method in COUNTED_METHODS and status not in _REFUSED_EARLY else COUNTED_METHODS[-1]


def count_database_error() -> None:
    """Count a statement or connection that failed because the database did not answer."""
    counters().add([(_DATABASE_ERRORS, 1)])


def database_errors() -> int:
    return int(counters().sums(_DATABASE_ERRORS, 1)[0])


def list_requests() -> Iterator[RequestCounts]:
    """Yield the counts of every method and route that was requested."""
    width = len(COUNTED_METHODS) * _WIDTH
    for route, place in _lines().items():
        row = counters().sums(_OWN + place * width, width)
        for number, method in enumerate(COUNTED_METHODS):
            *counts, seconds = row[number * _WIDTH : (number + 1) * _WIDTH]
            by_status = {status: int(count) for status, count in zip(STATUSES, counts, strict=True) if count}
            if by_status:
                yield RequestCounts(method=method, route=route, by_status=by_status, seconds=seconds)


def list_durations() -> Iterator[AreaDurations]:
    """Yield the durations of every area that was requested."""
    for place, area in enumerate(AREAS):
        *buckets, seconds = counters().sums(_OF_AREAS + place * _AREA_WIDTH, _AREA_WIDTH)
        if any(buckets):
            yield AreaDurations(area=area, buckets=[int(count) for count in buckets], seconds=seconds)


@functools.cache
def counters() -> SharedCounters:
    """Return the counters of this process and those that are forked from it: call it once before the fork."""
    # Twice as many as processes: an old process can end while its successor already works.
    return SharedCounters(
        columns=_OWN + len(_lines()) * len(COUNTED_METHODS) * _WIDTH, places=2 * settings.WEB_PROCESSES + 1
    )


@functools.cache
def _lines() -> dict[str, int]:
    """Return the number of each counted route."""
    routes = dict.fromkeys([UNKNOWN, STATIC, *map(counted_route, _patterns(get_resolver()))])
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
