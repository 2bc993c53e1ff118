"""The heading of a request: the stored call as a sentence, or what is asked with the agent's title as a quotation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString

from reviewqueue.pages import code_labels
from reviewqueue.pages.call_labels import Labels, describe_call, describe_call_in_a_list
from reviewqueue.text.hidden_characters import mark_hidden_plain, render_exact
from runs.models import Interrupt
from runs.states import Kind


def request_heading(interrupt: Interrupt, labels: Labels) -> tuple[SafeString, str]:
    """Return the heading as HTML and as plain text."""
    if interrupt.kind == Kind.APPROVAL and interrupt.proposal is not None:
        label = labels.get((interrupt.agent_id, str(interrupt.proposal["name"])))
        words = describe_call(interrupt.proposal, label)
        return words.sentence, words.plain
    return _quoted(interrupt)


def request_heading_for_row(interrupt: Interrupt, proposal: Any, labels: Labels) -> tuple[SafeString, str]:
    """Return the heading of a request for a list. ``proposal``: ``None`` if it is too long for a row."""
    if interrupt.kind != Kind.APPROVAL:
        return _quoted(interrupt)
    name = "" if proposal is None else str(proposal["name"])
    words = describe_call_in_a_list(name, proposal, labels, agent_id=interrupt.agent_id)
    return words.sentence, words.plain


def fields_label(interrupt: Interrupt) -> str:
    """Return how many fields the form of a request has: "7 fields to fill in"; empty without any."""
    body = None if interrupt.schema is None else interrupt.schema.body
    properties = body.get("properties") if isinstance(body, Mapping) else None
    count = len(properties) if isinstance(properties, Mapping) else 0
    return f"{count} fields to fill in" if count > 1 else "1 field to fill in" if count else ""


def _quoted(interrupt: Interrupt) -> tuple[SafeString, str]:
    """Only the agent's title distinguishes two questions; quotation marks set it apart from the server's text."""
    label = code_labels.request_label(interrupt.kind, interrupt.reason)
    html = format_html('{}: <q class="stated">{}</q>', label, render_exact(interrupt.title, one_line=True))
    return html, f"{label}: “{mark_hidden_plain(interrupt.title)}”"
