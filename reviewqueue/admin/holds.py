"""The desk of holds: what stops a run, and its owner's word that it may go on."""

from __future__ import annotations

from collections.abc import Iterable
from types import MappingProxyType
from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse

from ledger.errors import Refusal
from reviewqueue.admin.base import Desk, as_json, by_whom, drawn, person_of, values_address
from reviewqueue.admin.forms import HoldForm, Word, lift, words_for_hold
from reviewqueue.text.agent_text import seen
from runs.models import Fact, Hold
from runs.states import HoldKind

MOST_FACTS = 50  # on the page of a hold


def _facts_of(hold: Hold) -> QuerySet[Fact]:
    checkpoint = {"checkpoint__run": hold.run, "checkpoint__number": hold.run.checkpoint_number}
    return Fact.objects.filter(**checkpoint, name=hold.subject).select_related("connection", "waived_by").order_by("id")


def _values_of(facts: Iterable[Fact]) -> list[dict[str, Any]]:
    return [{"name": fact.name, "value": fact.value, "found": fact.last_value} for fact in facts]


@admin.register(Hold)
class HoldDesk(Desk):
    owner = "owner"
    list_display = ["run", "kind", drawn("subject"), "owner", "opened_at", "lifted_at", by_whom("lifted_by")]
    list_filter = ["kind", ("lifted_at", admin.EmptyFieldListFilter)]
    list_select_related = ["run", "owner"]
    ordering = ["-opened_at"]
    parts = MappingProxyType({"facts": lambda hold: _values_of(_facts_of(hold))})
    shows = ["run", "kind", drawn("subject"), drawn("reason"), "owner", "opened_at", "lifted_at", by_whom("lifted_by")]

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show one hold; a POST is its owner's word that the run may go on."""
        found = self.get_queryset(request).select_related("run__agent", "owner")
        hold = found.filter(pk=int(object_id[:18])).first() if object_id.isdecimal() else None
        if hold is None or not self.has_view_permission(request):
            raise Http404
        words = words_for_hold(hold)
        said = request.POST.get("word", words[0].value if words else "")
        word = next((word for word in words if word.value == said), None)
        form = HoldForm(request.POST if request.method == "POST" else None)
        if request.method == "POST" and word is not None and form.is_valid():
            try:
                messages.success(
                    request, lift(hold, word, person=person_of(request), reason=form.cleaned_data["reason"])
                )
            except Refusal as refused:
                messages.error(request, refused.detail)
            return HttpResponseRedirect(request.path)
        return TemplateResponse(request, "admin/hold.html", self.shown(request, hold, words, form))

    def shown(self, request: HttpRequest, hold: Hold, words: tuple[Word, ...], form: HoldForm) -> dict[str, Any]:
        """Return what the page shows: what is held and why, the fact if it is one, and what may be said."""
        every_value = values_address(hold, "facts")
        return {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": "Hold",
            "hold": hold,
            "subject": seen(hold.subject, one_line=True),
            "reason": seen(hold.reason),
            "run_title": seen(hold.run.title, one_line=True),
            "facts": [
                (fact, as_json(fact.value, more=every_value), as_json(fact.last_value, more=every_value))
                for fact in (_facts_of(hold)[:MOST_FACTS] if hold.kind == HoldKind.FACT_UNAVAILABLE else [])
            ],
            "form": form,
            "words": words,
        }
