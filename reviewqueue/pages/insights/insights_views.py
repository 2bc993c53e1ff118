"""The insights page and its CSV download, over what their reader may see."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db.models import QuerySet
from django.http import HttpResponse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_safe

from ledger import clock
from reviewqueue import permissions
from reviewqueue.pages.code_labels import queue_title
from reviewqueue.pages.insights.chart_captions import FEW, all_charts, percent
from reviewqueue.pages.rendering import PageRequest, render_page
from reviewqueue.queries.insights import Insights, read_insights
from reviewqueue.queries.insights.csv_export import csv_text, figures_of
from reviewqueue.queries.insights.scope import PERIODS, Scope, insights_scope
from reviewqueue.queries.replica import reads_replica
from reviewqueue.text.times import MONTHS, duration_label, time_zone_label
from runs.models import Agent, Queue
from runs.states import FINAL, InterruptStatus, RunStatus

DEFAULT_DAYS = 30


@dataclass(frozen=True, kw_only=True)
class Stat:
    """One figure at the top: its name, its value, and a text that puts it into proportion."""

    name: str
    value: str
    beside: str
    is_bad: bool = False


@require_safe
@reads_replica
def insights(request: PageRequest) -> HttpResponse:
    """Show the insights."""
    scope = _scope(request)
    found = read_insights(scope)
    seen_queues, seen_agents = Queue.objects.filter(pk__in=found.queues), Agent.objects.filter(pk__in=found.agents)
    context = {
        "section": "insights",
        "now": scope.now,
        "found": found,
        "about": _about(found, _asked(request, "queue"), _asked(request, "agent")),
        "stats": _stats(found),
        "plots": all_charts(found),
        "load": found.load,
        "judgement": found.judgement,
        "leads": permissions.led_queues(request.user).exists(),
        "days": scope.days,
        "periods": PERIODS,
        "queue": _asked(request, "queue"),
        "agent": _asked(request, "agent"),
        "queues": [(slug, queue_title(slug)) for slug in _choices(seen_queues, _asked(request, "queue"))],
        "agents": _choices(seen_agents, _asked(request, "agent")),
        "query": request.GET.urlencode(),
    }
    return render_page(request, "insights/page.html", context)


@require_safe
@reads_replica
def insights_csv(request: PageRequest) -> HttpResponse:
    """Download the same figures as CSV."""
    scope = _scope(request)
    named = f"insights-{scope.now:%Y-%m-%d}-{scope.days}-days.csv"
    headers = {"Content-Disposition": f'attachment; filename="{named}"'}
    return HttpResponse(csv_text(figures_of(read_insights(scope))), content_type="text/csv", headers=headers)


def _scope(request: PageRequest) -> Scope:
    asked = request.GET.get("days", "")
    days = int(asked) if asked in {str(period) for period in PERIODS} else DEFAULT_DAYS
    queue, agent = _asked(request, "queue"), _asked(request, "agent")
    return insights_scope(
        visible=permissions.read_scope(request.user), days=days, now=clock.now(), queue=queue, agent=agent
    )


def _asked(request: PageRequest, name: str) -> str:
    """Return a slug of the query, or an empty text: PostgreSQL refuses some texts that are not slugs."""
    text = request.GET.get(name, "")[:60]
    return text if text.isascii() and text.replace("-", "").replace("_", "").isalnum() else ""


def _choices(rows: QuerySet[Any], asked: str) -> list[str]:
    slugs = list(rows.order_by("slug").values_list("slug", flat=True))
    return slugs if not asked or asked in slugs else [*slugs, asked]


def _about(found: Insights, queue: str, agent: str) -> str:
    """Return the scope in one line: "All your queues, 31 Oct to 29 Nov 2026, counted 14:20 CET"."""
    scope = found.scope
    first, last = scope.since, scope.now.astimezone(scope.since.tzinfo)
    begins = f"{first.day} {MONTHS[first.month - 1]}" + (f" {first.year}" if first.year != last.year else "")
    counted = timezone.localtime(found.counted_at)
    parts = [queue_title(queue) if queue else _("All your queues")]
    if agent:
        parts.append(_("agent {agent}").format(agent=agent))
    ends = f"{last.day} {MONTHS[last.month - 1]} {last.year}"
    parts.append(_("{first} to {last} (days of UTC)").format(first=begins, last=ends))
    return ", ".join([*parts, _("counted {time}").format(time=f"{counted:%H:%M} {time_zone_label(counted)}")])


def _stats(found: Insights) -> list[Stat]:
    waiting, deciding, ended = found.waiting.ages, found.deciding, found.ended
    expired = ended.statuses[InterruptStatus.EXPIRED]
    finished, completed = found.resumed.number(*FINAL), found.resumed.number(RunStatus.COMPLETED)
    before = _("{duration} in the {days} days before").format(
        duration=_length(deciding.before.p50), days=found.scope.days
    )
    how = [_("{number} by a default").format(number=ended.by_default)] if ended.by_default else []
    how += [_("{number} escalated first").format(number=ended.escalated)] if ended.escalated else []
    is_few = 0 < finished < FEW
    unknown = found.spared.unknown_now
    return [
        Stat(
            name=_("Open now"),
            value=f"{waiting.number}",
            beside=_("oldest {duration}").format(duration=_length(waiting.longest))
            if waiting.number
            else _("no open requests"),
        ),
        Stat(
            name=_("Median time to decide"),
            value=_length(deciding.lengths.p50),
            beside=before if deciding.before.number else _("no decisions in the period before"),
        ),
        Stat(
            name=_("Ended without a person"),
            value=f"{expired}",
            beside="; ".join([_("of {number} closed").format(number=ended.total), *([", ".join(how)] if how else [])])
            if ended.total
            else _("none was closed"),
        ),
        Stat(
            name=_("Resumed runs completed"),
            value=_("{number} of {total}").format(number=completed, total=finished)
            if is_few
            else percent(completed, finished)
            if finished
            else _("none yet"),
            beside=_("that ended")
            if is_few
            else _("{number} of {total} that ended").format(number=completed, total=finished)
            if finished
            else _("none has ended"),
        ),
        Stat(
            name=_("Effects repeated"),
            value=f"{found.spared.repeated}",
            beside=ngettext(
                "{number} outcome unknown, with an owner", "{number} outcomes unknown, with an owner", unknown
            ).format(number=unknown)
            if unknown
            else _("no unknown outcomes"),
            is_bad=found.spared.repeated > 0,
        ),
    ]


def _length(length: timedelta | None) -> str:
    return _("none yet") if length is None else duration_label(length)
