"""The desks of runs and of their timelines: to read, never to change."""

from __future__ import annotations

from types import MappingProxyType

from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from reviewqueue.admin.base import Desk, by_whom, drawn, json_text
from runs.models import Event, Run


@admin.register(Run)
class RunDesk(Desk):
    owner = "agent__owner"
    list_display = ["public_id", drawn("title"), "agent", "status", "initiator", "created_at"]
    list_filter = ["status", ("agent", admin.RelatedOnlyFieldListFilter)]  # not the names of others' agents
    search_fields = ["=public_id", "=key"]
    list_select_related = ["agent", "initiator"]
    ordering = ["-created_at"]
    shows = [
        "public_id", "timeline", "agent", drawn("key"), drawn("title"), "initiator", drawn("code_version"), "status",
        "ending", drawn("ending_reason"), "ended_at", "epoch", "checkpoint_number", "fence", "lease_until", "attempts",
        "pause_asked_at", by_whom("pause_asked_by"), drawn("pause_reason"), "open_holds", "open_continuation",
        "open_waits", "expires_at", "created_at",
    ]  # fmt: skip

    @admin.display(description="timeline")
    def timeline(self, run: Run) -> SafeString:
        address = reverse("admin:runs_event_changelist")
        return format_html(
            '<a href="{}?run__public_id__exact={}">{} events</a>', address, run.public_id, run.timeline_seq
        )


@admin.register(Event)
class EventDesk(Desk):
    owner = "run__agent__owner"
    list_display = ["run", "seq", "type", drawn("actor"), "at"]
    list_filter = ["type"]
    search_fields = ["=run__public_id"]
    list_select_related = ["run"]
    ordering = ["-run_id", "seq"]
    parts = MappingProxyType({"refs": lambda event: event.refs})
    shows = ["run", "seq", "type", drawn("actor"), "at", json_text("refs"), "prev", "digest"]

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        return lookup == "run__public_id__exact" or super().lookup_allowed(lookup, value, request)  # type: ignore[arg-type]
