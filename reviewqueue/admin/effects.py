"""Admin pages of effects, and of unknown outcomes, which their owners resolve here."""

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
from reviewqueue.admin.base import ReadOnlyAdmin, person_of, render_json_text, scope_of, text_column, values_url
from reviewqueue.models import UnknownOutcome
from reviewqueue.pages.reconciliation_forms import ResolutionForm, effect_resolutions, resolve_effect
from reviewqueue.text.hidden_characters import render_exact
from reviewqueue.text.times import exact_element
from runs.models import Run


class MineFilter(admin.SimpleListFilter):
    """Filter the effects that the person's own groups own, for operators, who see all."""

    title = "owner"
    parameter_name = "owner"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("mine", "my groups")]

    def queryset(self, request: HttpRequest, queryset: QuerySet) -> QuerySet:
        mine = self.value() == "mine"
        return queryset.filter(owner__in=scope_of(request).groups) if mine else queryset


@admin.display(description="run", ordering="scope")
def run_of(effect: Effect) -> SafeString:
    if effect.run_pk is None:  # type: ignore[attr-defined]  # annotated by EffectAdmin.get_queryset
        return format_html("{}", effect.scope)
    address = reverse("admin:runs_run_change", args=[effect.run_pk])  # type: ignore[attr-defined]
    return format_html('<a href="{}">{}</a>', address, render_exact(effect.run_title, one_line=True))  # type: ignore[attr-defined]


@admin.display(description="unknown since", ordering="changed_at")
def since(effect: Effect) -> SafeString:
    return exact_element(effect.changed_at)


#: Reports and orders on a page, and bytes of HTML per report. The page of all reports has the others.
MAX_REPORTS = 50
MAX_REPORT_BYTES = 4 * 1024


def _reports(effect: Effect) -> list[dict[str, Any]]:
    reports = effect.reports.order_by("id")
    return [
        {"at": it.at.isoformat(), "by": it.by, "attempt": it.attempt, "status": it.status, "body": it.body}
        for it in reports.iterator()
    ]


@admin.register(Effect)
class EffectAdmin(ReadOnlyAdmin):
    """Effects. The page of one shows the exact call and all reports, and has the form to resolve it."""

    owner = "owner"
    list_display = [
        "public_id",
        text_column("name"),
        text_column("key"),
        "status",
        "attempt",
        run_of,
        "owner",
        "changed_at",
    ]
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
        """Show one effect; a POST resolves it and shows the result in one sentence."""
        effect = self.find(request, object_id)
        form = ResolutionForm(request.POST if request.method == "POST" else None)
        if request.method == "POST" and form.is_valid():
            try:
                messages.success(request, resolve_effect(effect, form, person=person_of(request)))
            except Refusal as refused:
                messages.error(request, refused.detail)
                return HttpResponseRedirect(request.path)
            return HttpResponseRedirect(reverse("admin:reviewqueue_unknownoutcome_changelist"))
        return TemplateResponse(request, "admin/effect.html", self.page_context(request, effect, form))

    def find(self, request: HttpRequest, object_id: str) -> Effect:
        """Return the effect if the person can see it, else 404, as for a missing one."""
        if not self.has_view_permission(request) or not object_id.isdecimal():
            raise Http404
        effect = EffectAdmin.get_queryset(self, request).select_related("owner").filter(pk=int(object_id[:18])).first()
        if effect is None:
            raise Http404
        return effect

    def page_context(self, request: HttpRequest, effect: Effect, form: ResolutionForm) -> dict[str, Any]:
        """Return the template context: the call, its reports and orders, the holds, and the available resolutions."""
        run = Run.objects.filter(public_id=effect.scope).first()
        reports = list(effect.reports.order_by("-id")[: MAX_REPORTS + 1])
        orders = list(effect.orders.select_related("person").order_by("-id")[:MAX_REPORTS])
        every_report = values_url(effect, "reports")
        return {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": "Unknown outcome" if effect.status == EffectStatus.UNKNOWN else "Effect",
            "effect": effect,
            "name": render_exact(effect.name, one_line=True),
            "key": render_exact(effect.key, one_line=True),
            "error": render_exact(effect.error),
            "arguments": render_json_text(effect.call["arguments"], more=values_url(effect, "call")),
            "receipt": render_json_text(effect.receipt, more=values_url(effect, "receipt")),
            "run": run,
            "run_title": render_exact(run.title, one_line=True) if run else "",
            "holds": run.holds.filter(lifted_at=None).order_by("id")[:MAX_REPORTS] if run else [],
            "reports": [
                (report, render_json_text(report.body, more=every_report, size=MAX_REPORT_BYTES))
                for report in reports[:MAX_REPORTS][::-1]
            ],
            "earlier_reports": every_report if len(reports) > MAX_REPORTS else "",
            "orders": [(order, render_exact(order.reason)) for order in orders[::-1]],
            "form": form,
            "resolutions": list(effect_resolutions(effect, run)),
        }


@admin.register(UnknownOutcome)
class UnknownOutcomeAdmin(EffectAdmin):
    """Effects with an unknown outcome, the oldest first."""

    list_display = [text_column("name"), since, run_of, text_column("key"), "attempt", "owner"]
    list_filter = [MineFilter]
    ordering = ["changed_at"]

    def get_queryset(self, request: HttpRequest) -> QuerySet:
        return super().get_queryset(request).filter(status=EffectStatus.UNKNOWN)
