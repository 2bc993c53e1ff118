"""The desks of the ledger: every effect, and those whose outcome nobody knows, which wait for their owner's word."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from django.contrib import admin, messages
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from ledger.errors import Refusal
from ledger.models import Effect
from ledger.states import EffectStatus
from reviewqueue.admin.base import Desk, as_json, drawn, person_of, rights_of, values_address
from reviewqueue.admin.forms import SettlingForm, say, words_for
from reviewqueue.models import UnknownOutcome
from reviewqueue.text.agent_text import seen
from runs.models import Run


class MineFilter(admin.SimpleListFilter):
    """An operator sees all effects; this narrows them to those that are theirs to settle first."""

    title = "owner"
    parameter_name = "owner"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("mine", "my groups")]

    def queryset(self, request: HttpRequest, queryset: QuerySet) -> QuerySet:
        mine = self.value() == "mine"
        return queryset.filter(owner__in=rights_of(request).groups) if mine else queryset


@admin.display(description="run", ordering="scope")
def run_of(effect: Effect) -> SafeString:
    if effect.run_pk is None:  # type: ignore[attr-defined]  # annotated by EffectDesk.get_queryset
        return format_html("{}", effect.scope)
    address = reverse("admin:runs_run_change", args=[effect.run_pk])  # type: ignore[attr-defined]
    return format_html('<a href="{}">{}</a>', address, seen(effect.run_title, one_line=True))  # type: ignore[attr-defined]


@admin.display(description="unknown since", ordering="changed_at")
def since(effect: Effect) -> str:
    return f"{effect.changed_at:%Y-%m-%d %H:%M} UTC"


#: Reports and orders on a page, and bytes of HTML of each report; the page of every report has the others.
MOST_REPORTS = 50
BYTES_OF_A_REPORT = 4 * 1024


def _reports(effect: Effect) -> list[dict[str, Any]]:
    reports = effect.reports.order_by("id")
    return [
        {"at": it.at.isoformat(), "by": it.by, "attempt": it.attempt, "status": it.status, "body": it.body}
        for it in reports.iterator()
    ]


@admin.register(Effect)
class EffectDesk(Desk):
    """The ledger. A row's page shows the exact call and every word said of it, and takes the owner's."""

    owner = "owner"
    list_display = ["public_id", drawn("name"), drawn("key"), "status", "attempt", run_of, "owner", "changed_at"]
    list_filter = [MineFilter, "status", "repeat"]
    search_fields = ["=public_id", "=key", "=name", "=scope"]
    list_select_related = ["owner"]
    ordering = ["-changed_at"]
    parts = MappingProxyType(
        {"call": lambda effect: effect.call, "receipt": lambda effect: effect.receipt, "reports": _reports}
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet:
        runs = Run.objects.filter(public_id=OuterRef("scope"))
        return (
            super()
            .get_queryset(request)
            .annotate(run_pk=Subquery(runs.values("pk")[:1]), run_title=Subquery(runs.values("title")[:1]))
        )

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show one effect; a POST says what became of it, and is told in one sentence what followed."""
        effect = self.find(request, object_id)
        form = SettlingForm(request.POST if request.method == "POST" else None)
        if request.method == "POST" and form.is_valid():
            try:
                messages.success(request, say(effect, form, person=person_of(request)))
            except Refusal as refused:
                messages.error(request, refused.detail)
                return HttpResponseRedirect(request.path)
            return HttpResponseRedirect(reverse("admin:reviewqueue_unknownoutcome_changelist"))
        return TemplateResponse(request, "admin/effect.html", self.shown(request, effect, form))

    def find(self, request: HttpRequest, object_id: str) -> Effect:
        """Return the effect if it is the person's to see; foreign and missing look the same."""
        if not self.has_view_permission(request) or not object_id.isdecimal():
            raise Http404
        effect = EffectDesk.get_queryset(self, request).select_related("owner").filter(pk=int(object_id[:18])).first()
        if effect is None:
            raise Http404
        return effect

    def shown(self, request: HttpRequest, effect: Effect, form: SettlingForm) -> dict[str, Any]:
        """Return what the page shows: the call, what was said, whom it holds, and what may be said now."""
        run = Run.objects.filter(public_id=effect.scope).first()
        reports = list(effect.reports.order_by("-id")[: MOST_REPORTS + 1])
        orders = list(effect.orders.select_related("person").order_by("-id")[:MOST_REPORTS])
        every_report = values_address(effect, "reports")
        return {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": "Unknown outcome" if effect.status == EffectStatus.UNKNOWN else "Effect",
            "effect": effect,
            "name": seen(effect.name, one_line=True),
            "key": seen(effect.key, one_line=True),
            "error": seen(effect.error),
            "arguments": as_json(effect.call["arguments"], more=values_address(effect, "call")),
            "receipt": as_json(effect.receipt, more=values_address(effect, "receipt")),
            "run": run,
            "run_title": seen(run.title, one_line=True) if run else "",
            "holds": run.holds.filter(lifted_at=None).order_by("id")[:MOST_REPORTS] if run else [],
            "reports": [
                (report, as_json(report.body, more=every_report, size=BYTES_OF_A_REPORT))
                for report in reports[:MOST_REPORTS][::-1]
            ],
            "earlier_reports": every_report if len(reports) > MOST_REPORTS else "",
            "orders": [(order, seen(order.reason)) for order in orders[::-1]],
            "form": form,
            "words": list(words_for(effect, run)),
        }


@admin.register(UnknownOutcome)
class UnknownOutcomeDesk(EffectDesk):
    """What waits for its owner: nobody knows whether it happened. The oldest first."""

    list_display = [drawn("name"), since, run_of, drawn("key"), "attempt", "owner"]
    list_filter = [MineFilter]
    ordering = ["changed_at"]

    def get_queryset(self, request: HttpRequest) -> QuerySet:
        return super().get_queryset(request).filter(status=EffectStatus.UNKNOWN)
