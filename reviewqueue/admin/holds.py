"""Admin pages of holds, which owners resolve here."""

from __future__ import annotations

from collections.abc import Iterable
from types import MappingProxyType
from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse

from ledger.errors import Refusal
from reviewqueue.admin.base import ReadOnlyAdmin, actor_column, person_of, render_json_text, text_column, values_url
from reviewqueue.pages.reconciliation_forms import HoldForm, Resolution, hold_resolutions, resolve_hold
from reviewqueue.text.hidden_characters import render_exact
from runs.models import Fact, Hold
from runs.states import HoldKind

MAX_FACTS = 50  # on the page of a hold


def _facts_of(hold: Hold) -> QuerySet[Fact]:
    checkpoint = {"checkpoint__run": hold.run, "checkpoint__number": hold.run.checkpoint_number}
    return Fact.objects.filter(**checkpoint, name=hold.subject).select_related("connection", "waived_by").order_by("id")


def _values_of(facts: Iterable[Fact]) -> list[dict[str, Any]]:
    return [{"name": fact.name, "value": fact.value, "found": fact.last_value} for fact in facts]


@admin.register(Hold)
class HoldAdmin(ReadOnlyAdmin):
    owner = "owner"
    list_display = ["run", "kind", text_column("subject"), "owner", "opened_at", "lifted_at", actor_column("lifted_by")]
    list_filter = ["kind", ("lifted_at", admin.EmptyFieldListFilter)]
    list_select_related = ["run", "owner"]
    ordering = ["-opened_at"]
    parts = MappingProxyType({"facts": lambda hold: _values_of(_facts_of(hold))})
    shows = [
        "run",
        "kind",
        text_column("subject"),
        text_column("reason"),
        "owner",
        "opened_at",
        "lifted_at",
        actor_column("lifted_by"),
    ]

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show one hold; a POST resolves it."""
        found = self.get_queryset(request).select_related("run__agent", "owner")
        hold = found.filter(pk=int(object_id[:18])).first() if object_id.isdecimal() else None
        if hold is None or not self.has_view_permission(request):
            raise Http404
        resolutions = hold_resolutions(hold)
        chosen = request.POST.get("resolution", resolutions[0].value if resolutions else "")
        resolution = next((it for it in resolutions if it.value == chosen), None)
        form = HoldForm(request.POST if request.method == "POST" else None)
        if request.method == "POST" and resolution is not None and form.is_valid():
            try:
                messages.success(
                    request,
                    resolve_hold(hold, resolution, person=person_of(request), reason=form.cleaned_data["reason"]),
                )
            except Refusal as refused:
                messages.error(request, refused.detail)
            return HttpResponseRedirect(request.path)
        return TemplateResponse(request, "admin/hold.html", self.page_context(request, hold, resolutions, form))

    def page_context(
        self, request: HttpRequest, hold: Hold, resolutions: tuple[Resolution, ...], form: HoldForm
    ) -> dict[str, Any]:
        """Return the template context: the hold and its reason, the fact if there is one, and the resolutions."""
        every_value = values_url(hold, "facts")
        return {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": "Hold",
            "hold": hold,
            "subject": render_exact(hold.subject, one_line=True),
            "reason": render_exact(hold.reason),
            "run_title": render_exact(hold.run.title, one_line=True),
            "facts": [
                (
                    fact,
                    render_json_text(fact.value, more=every_value),
                    render_json_text(fact.last_value, more=every_value),
                )
                for fact in (_facts_of(hold)[:MAX_FACTS] if hold.kind == HoldKind.FACT_UNAVAILABLE else [])
            ],
            "form": form,
            "resolutions": resolutions,
        }
