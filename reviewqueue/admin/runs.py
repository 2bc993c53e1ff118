"""Admin pages of runs and their timelines, read-only."""

from __future__ import annotations

from types import MappingProxyType

from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from reviewqueue.admin.base import ReadOnlyAdmin, actor_column, json_column, text_column
from runs.models import Event, Run


@admin.register(Run)
class RunAdmin(ReadOnlyAdmin):
    owner = "agent__owner"
    list_display = ["public_id", text_column("title"), "agent", "status", "initiator", "created_at"]
    list_filter = ["status", ("agent", admin.RelatedOnlyFieldListFilter)]  # not the names of other owners' agents
    search_fields = ["=public_id", "=key"]
    list_select_related = ["agent", "initiator"]
    ordering = ["-created_at"]
    shows = [
        "public_id", "timeline", "agent", text_column("key"), text_column("title"), "initiator",
        text_column("code_version"), "status", "ending", text_column("ending_reason"), "ended_at", "epoch",
        "checkpoint_number", "fence", "lease_until", "attempts",
        "pause_asked_at", actor_column("pause_asked_by"), text_column("pause_reason"), "open_holds", "open_continuation",
        "open_waits", "expires_at", "created_at",
    ]  # fmt: skip

    @admin.display(description="timeline")
    def timeline(self, run: Run) -> SafeString:
        address = reverse("admin:runs_event_changelist")
        return format_html(
            '<a href="{}?run__public_id__exact={}">{} events</a>', address, run.public_id, run.timeline_seq
        )


@admin.register(Event)
class EventAdmin(ReadOnlyAdmin):
    owner = "run__agent__owner"
    list_display = ["run", "seq", "type", text_column("actor"), "at"]
    list_filter = ["type"]
    search_fields = ["=run__public_id"]
    list_select_related = ["run"]
    ordering = ["-run_id", "seq"]
    parts = MappingProxyType({"refs": lambda event: event.refs})
    shows = ["run", "seq", "type", text_column("actor"), "at", json_column("refs"), "prev", "digest"]

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        return lookup == "run__public_id__exact" or super().lookup_allowed(lookup, value, request)  # type: ignore[arg-type]
