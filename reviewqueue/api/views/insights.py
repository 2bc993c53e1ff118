"""The measures, over what the caller may see: as JSON, or as the same sheet that the page hands out.

Lengths are whole seconds, and `null` where there is nothing to measure. An agent's key gets no share of any person.
"""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

from django.http import HttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from ledger import clock
from ledger.errors import PayloadInvalid, Problem
from reviewqueue.api import responses
from reviewqueue.api.authentication import caller_of
from reviewqueue.api.pagination import query_of
from reviewqueue.api.scoped_querysets import interrupts_of, runs_of
from reviewqueue.api.views.base import ApiView
from reviewqueue.queries.insights import Insights, read_insights
from reviewqueue.queries.insights.csv_export import csv_text, figures_of
from reviewqueue.queries.insights.quantiles import Quantiles
from reviewqueue.queries.insights.scope import PERIODS, scope_of
from runs.states import RunStatus

FORMATS = ("json", "csv")


class InsightsOfCaller(ApiView):
    """Every measure."""

    def get(self, request: Request) -> Response | HttpResponse:
        """Count them, as of now."""
        query = query_of(request, "days", "queue", "agent", "format")
        caller = caller_of(request)
        days = int(_one_of(query, "days", [str(period) for period in PERIODS], default="30"))
        wanted = _one_of(query, "format", list(FORMATS), default="json")
        scope = scope_of(
            waits=interrupts_of(caller),
            runs=runs_of(caller),
            days=days,
            now=clock.now(),
            queue=query.get("queue", ""),
            agent=query.get("agent", ""),
        )
        found = read_insights(scope)
        if caller.person is None:
            found = dataclasses.replace(found, load=[])
        if wanted == "csv":
            return HttpResponse(csv_text(figures_of(found)), content_type="text/csv")
        return Response(_whole(found) | {"load": None if caller.person is None else _load(found)})


def _one_of(query: dict[str, str], name: str, known: list[str], *, default: str) -> str:
    value = query.get(name, default)
    if value not in known:
        message = f"has to be one of: {', '.join(known)}"
        raise PayloadInvalid(f"The query's {name} {message}.", errors=[Problem("", f"?{name} {message}")])
    return value


def _whole(found: Insights) -> dict[str, Any]:
    kept, redone, skipped = found.spared.totals()
    return {
        "counted_at": responses.moment(found.scope.now),
        "since": responses.moment(found.scope.since),
        "days": found.scope.days,
        "waiting": _lengths(found.waiting.ages)
        | {
            "by_age": [
                {"age": band, "waits": waits, "ending_soon": soon}
                for band, (waits, soon) in found.waiting.bands.items()
            ],
            "by_queue": [{"queue": slug} | _lengths(ages) for slug, ages in found.waiting.queues.items()],
        },
        "ended": {
            "closed": found.ended.total,
            "by_status": found.ended.statuses,
            "expired_by_default": found.ended.by_default,
            "expired_after_escalation": found.ended.escalated,
        },
        "deciding": _lengths(found.deciding.lengths)
        | {
            "before": _lengths(found.deciding.before),
            "by_risk": [{"risk": risk} | _lengths(lengths) for risk, lengths in found.deciding.risks.items()],
        },
        "refused": {
            "submitted": found.refused.submitted,
            "refused": found.refused.total,
            "by_code": [
                {"code": code, "status": status, "refused": number}
                for (status, code), number in found.refused.codes.items()
            ],
        },
        "resumed": _statuses({status: found.resumed.number(status) for status in RunStatus.values})
        | {
            "parts": [{"begins": cut.isoformat()} | _statuses(part) for cut, part in found.resumed.parts.items()],
        },
        "spared": {
            "steps_kept": kept,
            "steps_redone": redone,
            "effects_skipped": skipped,
            "effects_unknown": found.spared.unknown_now,
            "effects_repeated": found.spared.repeated,
            "parts": [
                {"begins": cut.isoformat(), "steps_kept": k, "steps_redone": r, "effects_skipped": s}
                for cut, (k, r, s) in found.spared.parts.items()
            ],
        },
    }


def _statuses(counted: dict[str, int]) -> dict[str, Any]:
    return {
        "runs": sum(counted.values()),
        "by_status": {status: counted[status] for status in RunStatus.values if counted.get(status)},
    }


def _load(found: Insights) -> list[dict[str, Any]]:
    return [
        {
            "person": share.address,
            "decided": share.decided,
            "high_risk": share.high_risk,
            "revoked": share.revoked,
            "claimed_now": share.claimed_now,
            "median_seconds": _seconds(share.median),
        }
        for share in found.load
    ]


def _lengths(lengths: Quantiles) -> dict[str, Any]:
    return {
        "number": lengths.number,
        "p10_seconds": _seconds(lengths.p10),
        "p50_seconds": _seconds(lengths.p50),
        "p90_seconds": _seconds(lengths.p90),
        "longest_seconds": _seconds(lengths.longest),
    }


def _seconds(length: timedelta | None) -> int | None:
    return None if length is None else int(length.total_seconds())
