"""Text and values from outside, in templates: `{{ title|seen_line }}`, `{{ text|markdown }}`, `{% exact value %}`.

Called by the templates only; the rules are in `reviewqueue.pages`. Whatever comes from an agent goes through one of these,
and never through `safe`. A mapping from an agent is walked with `members`, since `.items` would find a member of that name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import template
from django.template.context import Context
from django.utils.safestring import SafeString, mark_safe

from ledger.actors import in_words
from reviewqueue.pages.interrupt.decision_evidence import render_value
from reviewqueue.text import agent_text, hidden_characters, json_values

register = template.Library()


@register.filter
def seen(text: Any) -> SafeString:
    """Return a text of one or many lines with every hidden character drawn."""
    return hidden_characters.seen(str(text))


@register.filter
def seen_line(text: Any) -> SafeString:
    """Return a text that stands in one line (a name, a key, a title), line ends drawn as well."""
    return hidden_characters.seen(str(text), one_line=True)


@register.filter
def actor_line(actor: Any) -> SafeString:
    """Return who did it (``person:...``, ``agent:...``, ``system:...``) as a sentence names them."""
    return hidden_characters.seen(in_words(str(actor)), one_line=True)


@register.filter
def seen_plain(text: Any) -> str:
    """Return a text for places that take no HTML (a page's title, a label, an option)."""
    return hidden_characters.seen_plain(str(text))


@register.filter
def markdown(text: str | None) -> SafeString:
    """Return an agent's markdown as inert HTML; put it into `_agent_text.html`, not bare on the page."""
    return agent_text.render_markdown(text or "")


@register.filter
def num(value: Any) -> SafeString:
    """Return a number with grouped digits that copies exactly."""
    return agent_text.num(value)


@register.simple_tag(takes_context=True)
def exact(context: Context, value: Any, more: str = "") -> SafeString:
    """Return any JSON value, drawn exactly. ``more``: the address of the page with every part of it."""
    return _drawn(context, value, more=more, stated=False)


@register.simple_tag(takes_context=True)
def stated(context: Context, value: Any, more: str = "") -> SafeString:
    """Return a value of a fact or of evidence, amounts as amounts."""
    return _drawn(context, value, more=more, stated=True)


def _drawn(context: Context, value: Any, *, more: str, stated: bool) -> SafeString:
    """Draw a value within its own limits and within those of the grounds, or of all values of the response."""
    budget: Any = context.get("within")
    if not isinstance(budget, json_values.Budget):
        request = getattr(context, "request", None)
        budget = getattr(request, "budget", None) or json_values.Budget(
            members=json_values.PAGE_MEMBERS, size=json_values.PAGE_BYTES
        )
        if request is not None:
            request.budget = budget
    return mark_safe(render_value(value, budget, more=more, stated=stated)[0])  # noqa: S308  drawn


@register.simple_tag
def call_rows(arguments: Mapping[str, Any]) -> SafeString:
    """Return every argument of a call that is drawn among others, within the limits of a bulk."""
    return json_values.draw_mapping(arguments, budget=json_values.bulk_budget()).html


@register.simple_tag
def long_text(text: str, more: str = "") -> SafeString:
    """Return a text that people wrote; one that is too large for the page with its beginning."""
    html, end = hidden_characters.fitting(str(text), json_values.BYTES_OF_A_TEXT)
    return json_values.text_in_part(html, end, len(text), more=more)


@register.filter
def is_wide(value: Any) -> bool:
    """Say whether a value needs a row of its own."""
    return json_values.is_wide(value)


@register.filter
def short_digest(text: str) -> str:
    """Return a digest's beginning and end, for places where the whole stands elsewhere."""
    return f"{text[:12]}…{text[-4:]}" if len(text) > 20 else text


@register.filter
def members(mapping: Mapping[str, Any] | None) -> list[tuple[str, Any]]:
    """Return the names and values of an object from outside, in their order."""
    return list(mapping.items()) if mapping else []


@register.filter
def warnings(value: Any) -> hidden_characters.Warnings:
    """Return what a person must know about a text or value before trusting it: `{% with hint=value|warnings %}`."""
    return hidden_characters.warnings_in(value)
