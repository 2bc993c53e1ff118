"""Formats of webhook messages: plain, or a CloudEvents 1.0 envelope in one of the modes of its HTTP binding.

A message is stored plain and rendered for each attempt. An endpoint's format never changes, so every attempt of a message
has the same body. The signature covers the rendered body, in the binary mode without the attributes in the headers.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from django.conf import settings

from ledger.exact_json import dumps, parse
from reviewqueue.webhooks.models import MessageFormat
from runs.models import Agent

TYPE_PREFIX = "reviewqueue."
DATA_SCHEMA = "webhook_data.schema.json"
#: Visible ASCII that a header has unencoded: all but the quotation mark and the percent sign.
_SAFE = "!#$&'()*+,-./:;<=>?@[\\]^_`{|}~"


@dataclass(frozen=True, kw_only=True)
class RenderedMessage:
    """The body of a message, and the headers that describe it."""

    headers: list[tuple[str, str]]
    body: bytes


def source_of(agent: Agent) -> str:
    """Return the `source` of an agent's CloudEvents. With `id` it identifies a message."""
    return f"{settings.BASE_URL}/agents/{agent.slug}"


def render_message(format_: str, *, message_id: str, source: str, plain: str) -> RenderedMessage:
    """Return the message in the format of its endpoint."""
    if format_ == MessageFormat.PLAIN:
        return RenderedMessage(headers=[("Content-Type", "application/json")], body=plain.encode())
    message = parse(plain)
    data = message["data"]
    attributes = {
        "specversion": "1.0",
        "id": message_id,
        "source": source,
        "type": TYPE_PREFIX + message["type"],
        "time": message["timestamp"],
    }
    if "run" in data:  # a test message is about no run
        attributes["subject"] = data["run"]
        attributes["dataschema"] = f"{settings.BASE_URL}{settings.STATIC_URL}{DATA_SCHEMA}"
    if format_ == MessageFormat.CLOUDEVENTS_STRUCTURED:
        event = {**attributes, "datacontenttype": "application/json", "data": data}
        headers = [("Content-Type", "application/cloudevents+json; charset=utf-8")]
        return RenderedMessage(headers=headers, body=dumps(event).encode())
    named = [(f"ce-{name}", quote(value, safe=_SAFE)) for name, value in attributes.items()]
    return RenderedMessage(headers=[("Content-Type", "application/json"), *named], body=dumps(data).encode())
