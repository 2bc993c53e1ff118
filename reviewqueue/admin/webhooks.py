"""The owners' desk of webhooks: endpoints and the log, read-only; a dead letter may be sent once more, by POST alone.

Owners see what belongs to their agents, operators everything. What a receiver answered is for operators: an owner chooses
the address, and would read by it what lies behind our network. No rule lives here.
"""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from ledger.actors import by_person
from ledger.errors import Refusal
from reviewqueue.admin.base import Desk, drawn, person_of, rights_of
from reviewqueue.text.agent_text import seen
from reviewqueue.webhooks.deliveries import order_again
from reviewqueue.webhooks.models import Delivery, DeliveryAttempt, WebhookEndpoint


@admin.register(WebhookEndpoint)
class WebhookEndpointDesk(Desk):
    """Where agents are told. Secrets are on no page."""

    owner = "agent__owner"
    list_display = ["public_id", "agent", drawn("url"), "created_at", "disabled_at", "deleted_at", "rest_until"]
    list_filter = [("agent", admin.RelatedOnlyFieldListFilter)]  # not the names of others' agents
    list_select_related = ["agent"]
    ordering = ["-pk"]
    shows = [
        *("public_id", "agent", drawn("url"), drawn("description"), "events", "created_at"),
        *("disabled_at", "deleted_at", "failures", "rest_until", "called_at"),
    ]


@admin.display(description="agent", ordering="endpoint__agent__slug")
def agent_of(delivery: Delivery) -> str:
    return delivery.endpoint.agent.slug


@admin.display(description="attempts")
def attempts_made(delivery: Delivery) -> SafeString:
    """Return each attempt on a line; one without an end is that of a worker that died in it."""
    return _listed(delivery, excerpts=False)


@admin.display(description="attempts")
def attempts_with_excerpts(delivery: Delivery) -> SafeString:
    """Return each attempt with the beginning of the reply, drawn inert."""
    return _listed(delivery, excerpts=True)


def _listed(delivery: Delivery, *, excerpts: bool) -> SafeString:
    lines = [(_line(attempt, excerpt=excerpts),) for attempt in delivery.attempts.order_by("number")]
    return format_html("<ol>{}</ol>", format_html_join("", "<li>{}</li>", lines))


def _line(attempt: DeliveryAttempt, *, excerpt: bool) -> SafeString:
    began, said = f"{attempt.began_at:%Y-%m-%d %H:%M:%S} UTC", attempt.trouble
    if not said:
        said = f"Delivered ({attempt.reply_status})." if attempt.ended_at else "Its end is not known."
    shown = seen(attempt.excerpt, one_line=True) if excerpt and attempt.excerpt else ""
    return format_html("{}: {} {}", began, said, shown)


@admin.register(Delivery)
class DeliveryDesk(Desk):
    """Every message, dead letters too. The one thing that can be done is to send some of them once more."""

    owner = "endpoint__agent__owner"
    list_display = ["public_id", agent_of, "type", "status", "attempt", "next_at", "trouble", "created_at"]
    list_filter = ["status", "type"]
    search_fields = ["=public_id", "=event__run__public_id", "=endpoint__public_id"]
    list_select_related = ["endpoint__agent"]
    ordering = ["-pk"]
    actions = ["send_once_more"]  # type: ignore[assignment]  # the base offers none

    def get_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        """Return what the page shows; the words of receivers only to operators."""
        attempts = attempts_with_excerpts if rights_of(request).sees_all else attempts_made
        told = ["public_id", agent_of, "endpoint", "type", "status", "trouble", "attempt", "next_at", "give_up_at"]
        return [*told, "created_at", "ended_at", "body", attempts]

    get_readonly_fields = get_fields

    @admin.action(description="Send once more, now")
    def send_once_more(self, request: HttpRequest, chosen: QuerySet[Delivery]) -> None:
        """Order the chosen messages again; each that cannot be sent is told with its reason."""
        by, sent = by_person(person_of(request)), 0
        for delivery_id in chosen.values_list("public_id", flat=True):
            try:
                order_again(agent=None, delivery_id=delivery_id, by=by)
                sent += 1
            except Refusal as refusal:
                messages.warning(request, f"{delivery_id}: {refusal.detail}")
        if sent:
            messages.success(request, f"{sent} sent once more: due now.")
