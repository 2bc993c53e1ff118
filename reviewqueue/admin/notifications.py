"""Admin pages of notifications, read-only and for operators: every message with its attempts, and the chat channels."""

from __future__ import annotations

from django.contrib import admin
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from reviewqueue.admin.base import ReadOnlyAdmin, text_column
from reviewqueue.models import ChatChannel, NotificationMessage
from reviewqueue.text.hidden_characters import render_exact


@admin.display(description="attempts")
def attempts_made(message: NotificationMessage) -> SafeString:
    """Return one line per attempt. An attempt without an end belongs to a worker that died during it."""
    lines = []
    for attempt in message.attempts.order_by("number"):
        result = attempt.trouble or ("Ended." if attempt.ended_at else "Outcome unknown.")
        lines.append((f"{attempt.began_at:%Y-%m-%d %H:%M:%S} UTC", render_exact(result, one_line=True)))
    return format_html("<ol>{}</ol>", format_html_join("", "<li>{}: {}</li>", lines))


@admin.display(description="about")
def about(message: NotificationMessage) -> str:
    return ", ".join(sorted(set(message.notifications.values_list("kind", flat=True))))


@admin.register(NotificationMessage)
class NotificationMessageAdmin(ReadOnlyAdmin):
    """Every message to a person or a chat channel, dead letters included."""

    list_display = ["public_id", "channel", "person", "chat", "status", "attempt", "next_at", "trouble", "created_at"]
    list_filter = ["status", "channel"]
    search_fields = ["=public_id", "=person__username"]
    list_select_related = ["person", "chat"]
    ordering = ["-pk"]
    shows = [
        *("public_id", "channel", "person", "chat", about, "status", text_column("trouble"), "attempt", "next_at"),
        *("give_up_at", "created_at", "ended_at", attempts_made),
    ]


@admin.register(ChatChannel)
class ChatChannelAdmin(ReadOnlyAdmin):
    """Chat channels. Their addresses are in the environment and on no page."""

    list_display = ["public_id", "queue", "variable", "min_risk", "created_at", "removed_at"]
    list_select_related = ["queue"]
    ordering = ["-pk"]
