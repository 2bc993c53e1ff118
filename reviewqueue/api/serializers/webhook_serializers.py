"""The request serializer of webhook endpoints."""

from __future__ import annotations

from typing import Any

from ledger.digests import digest
from reviewqueue.api.serializers.fields import ChoiceField, KeyField, ListField, RequestSerializer, TextField
from reviewqueue.webhooks.endpoints import MAX_URL_LENGTH, EndpointRequest
from reviewqueue.webhooks.event_types import TYPES
from reviewqueue.webhooks.models import MessageFormat


class RegisterWebhookRequest(RequestSerializer):
    """A new endpoint."""

    key = KeyField("Your key of the endpoint: a repeated request with it finds the same endpoint.")
    url = TextField(
        "URL that messages are sent to: https, at a public address.", max_length=MAX_URL_LENGTH, min_length=1
    )
    events = ListField(
        "Types of events to send (docs/webhooks.md).", TextField(max_length=40), min_entries=1, max_entries=len(TYPES)
    )
    description = TextField("Your own description of the endpoint.", max_length=300, default="")
    format = ChoiceField(
        "Format of the messages: plain JSON, or a CloudEvents 1.0 envelope.",
        *MessageFormat.values,
        default=MessageFormat.PLAIN.value,
    )


def endpoint_request(body: Any, asked: dict[str, Any]) -> EndpointRequest:
    """Return the endpoint to register; its digest covers the whole body."""
    return EndpointRequest(
        key=asked["key"],
        body_digest=digest(body),
        url=asked["url"],
        events=asked["events"],
        description=asked["description"],
        format=asked["format"],
    )
