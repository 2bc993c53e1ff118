"""Admin pages of webhook endpoints and deliveries, read-only; messages can be sent again.

Owners see the rows of their agents, operators all. Replies of receivers are for operators only: an owner chooses the URL,
and could otherwise read internal servers (SSRF).
"""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from ledger.actors import person_actor
from ledger.errors import Refusal
from reviewqueue.admin.base import ReadOnlyAdmin, person_of, scope_of, text_column
from reviewqueue.text.hidden_characters import render_exact
from reviewqueue.text.times import exact_element
from reviewqueue.webhooks.deliveries import resend_message
from reviewqueue.webhooks.models import Delivery, DeliveryAttempt, WebhookEndpoint


@admin.register(WebhookEndpoint)
class WebhookEndpointAdmin(ReadOnlyAdmin):
    """Endpoints. Their secrets are on no page."""

    owner = "agent__owner"
    list_display = ["public_id", "agent", text_column("url"), "created_at", "disabled_at", "deleted_at", "rest_until"]
    list_filter = [("agent", admin.RelatedOnlyFieldListFilter)]  # not the names of other owners' agents
    list_select_related = ["agent"]
    ordering = ["-pk"]
    shows = [
        *("public_id", "agent", text_column("url"), text_column("description"), "events", "created_at"),
        *("disabled_at", "deleted_at", "failures", "rest_until", "called_at"),
    ]


@admin.display(description="agent", ordering="endpoint__agent__slug")
def agent_of(delivery: Delivery) -> str:
    return delivery.endpoint.agent.slug


@admin.display(description="attempts")
def attempts_made(delivery: Delivery) -> SafeString:
    """Return one line per attempt. An attempt without an end belongs to a worker that died during it."""
    return _listed(delivery, excerpts=False)


@admin.display(description="attempts")
def attempts_with_excerpts(delivery: Delivery) -> SafeString:
    """Return one line per attempt, with the beginning of the reply as inert text."""
    return _listed(delivery, excerpts=True)


def _listed(delivery: Delivery, *, excerpts: bool) -> SafeString:
    lines = [(_line(attempt, excerpt=excerpts),) for attempt in delivery.attempts.order_by("number")]
    return format_html("<ol>{}</ol>", format_html_join("", "<li>{}</li>", lines))


def _line(attempt: DeliveryAttempt, *, excerpt: bool) -> SafeString:
    began, result = exact_element(attempt.began_at), attempt.trouble
    if not result:
        result = f"Delivered ({attempt.reply_status})." if attempt.ended_at else "Outcome unknown."
    shown = render_exact(attempt.excerpt, one_line=True) if excerpt and attempt.excerpt else ""
    return format_html("{}: {} {}", began, result, shown)


@admin.register(Delivery)
class DeliveryAdmin(ReadOnlyAdmin):
    """Every message, dead letters included. The only action sends messages again."""

    owner = "endpoint__agent__owner"
    list_display = ["public_id", agent_of, "type", "status", "attempt", "next_at", "trouble", "created_at"]
    list_filter = ["status", "type"]
    search_fields = ["=public_id", "=event__run__public_id", "=endpoint__public_id"]
    list_select_related = ["endpoint__agent"]
    ordering = ["-pk"]
    actions = ["send_again"]  # type: ignore[assignment]  # the base class has none

    def get_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        """Return the fields of the page; replies of receivers only for operators."""
        attempts = attempts_with_excerpts if scope_of(request).sees_all else attempts_made
        fields = ["public_id", agent_of, "endpoint", "type", "status", "trouble", "attempt", "next_at", "give_up_at"]
        return [*fields, "created_at", "ended_at", "body", attempts]

    get_readonly_fields = get_fields

    @admin.action(description="Send again now")
    def send_again(self, request: HttpRequest, chosen: QuerySet[Delivery]) -> None:
        """Send the chosen messages again, and list those that cannot be sent with the reason."""
        by, sent = person_actor(person_of(request)), 0
        for delivery_id in chosen.values_list("public_id", flat=True):
            try:
                resend_message(agent=None, delivery_id=delivery_id, by=by)
                sent += 1
            except Refusal as refusal:
                messages.warning(request, f"{delivery_id}: {refusal.detail}")
        if sent:
            messages.success(request, f"Messages due now: {sent}.")
