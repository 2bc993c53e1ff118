"""Template tags for untrusted text and values: `{{ title|seen_line }}`, `{{ text|markdown }}`, `{% exact value %}`.

Every text or value of an agent must pass through one of these tags, never through `safe`. Iterate over an agent's mapping
with `members`, because `.items` would find a member named "items".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django import template
from django.template.context import Context
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

from ledger.actors import actor_label
from reviewqueue.pages import call_labels, code_labels
from reviewqueue.pages.interrupt.decision_evidence import render_value
from reviewqueue.templatetags.icons import person_name
from reviewqueue.text import agent_text, hidden_characters, json_values

register = template.Library()


@register.filter
def seen(text: Any) -> SafeString:
    """Return a text with every hidden character made visible."""
    return hidden_characters.render_exact(str(text))


@register.filter
def visible_line(text: Any) -> SafeString:
    """Return a single-line text (a name, a key, a title); line ends are made visible as well."""
    return hidden_characters.render_exact(str(text), one_line=True)


@register.filter
def actor_name(actor: Any) -> SafeString:
    """Return the name of an actor (``person:...``, ``agent:...``, ``system:...``) for a sentence."""
    return hidden_characters.render_exact(actor_label(str(actor)), one_line=True)


@register.filter
def fields_label(interrupt: Any) -> str:
    """Return how many fields the form of a request has."""
    return call_labels.fields_label(interrupt)


@register.simple_tag
def join_texts(texts: Iterable[str]) -> SafeString:
    """Return texts in bold, separated by spaces."""
    return format_html_join(" ", "<b>{}</b>", ((visible_line(text),) for text in texts))


@register.simple_tag
def join_people(people: Iterable[Any]) -> SafeString:
    """Return the names of people, separated by commas."""
    return format_html_join(", ", "{}", ((visible_line(person_name(person)),) for person in people))


@register.simple_tag
def parent_runs(parents: Iterable[Any]) -> SafeString:
    """Return the runs that contain a run, the closest first: "a run of orders “Order the hoist”, inside a run of ..."."""
    quoted = (
        format_html(
            _("a run of {agent} {title}"),
            agent=parent.agent.slug,
            title=format_html('<q class="stated">{}</q>', visible_line(parent.title)),
        )
        for parent in parents
    )
    return format_html_join(_(", inside "), "{}", ((run,) for run in quoted))


@register.simple_tag
def request_links(interrupts: Iterable[Any]) -> SafeString:
    """Return links to requests, by the agent's titles, separated by commas."""
    return format_html_join(
        ", ",
        '<a href="{}"><q class="stated">{}</q></a>',
        ((reverse("interrupt", args=[one.public_id]), visible_line(one.title)) for one in interrupts),
    )


@register.filter
def part_label(part: str) -> str:
    """Return a part of a request for a sentence: "the evidence"."""
    return code_labels.part_label(part)


@register.filter
def seen_plain(text: Any) -> str:
    """Return a text for places that take no HTML (a page's title, an option)."""
    return hidden_characters.mark_hidden_plain(str(text))


@register.filter
def markdown(text: str | None) -> SafeString:
    """Return an agent's markdown as inert HTML. Use it inside `_agent_text.html` only."""
    return agent_text.render_markdown(text or "")


@register.filter
def num(value: Any) -> SafeString:
    """Return a number with digit groups that copies without separators."""
    return agent_text.group_digits(value)


@register.simple_tag(takes_context=True)
def exact(context: Context, value: Any, more: str = "") -> SafeString:
    """Render a JSON value exactly. ``more``: the address of the page with the whole value."""
    return _render(context, value, more=more, stated=False)


@register.simple_tag(takes_context=True)
def stated(context: Context, value: Any, more: str = "") -> SafeString:
    """Render a value of a fact or of evidence; amounts get digit groups."""
    return _render(context, value, more=more, stated=True)


def _render(context: Context, value: Any, *, more: str, stated: bool) -> SafeString:
    """Render a value within its own limits and the shared budget of the evidence, or of the whole response."""
    budget: Any = context.get("within")
    if not isinstance(budget, json_values.Budget):
        request = getattr(context, "request", None)
        budget = getattr(request, "budget", None) or json_values.Budget(
            members=json_values.PAGE_MEMBERS, size=json_values.PAGE_BYTES
        )
        if request is not None:
            request.budget = budget
    return mark_safe(render_value(value, budget, more=more, stated=stated)[0])  # noqa: S308  escaped by render_value


@register.simple_tag
def call_rows(arguments: Mapping[str, Any]) -> SafeString:
    """Render every argument of one call in a list of calls, within the limits for a bulk decision."""
    return json_values.render_mapping(arguments, budget=json_values.bulk_budget()).html


@register.simple_tag
def long_text(text: str, more: str = "") -> SafeString:
    """Render a text written by a person; of a text too large for the page only its beginning."""
    html, end = hidden_characters.render_within(str(text), json_values.MAX_TEXT_BYTES)
    return json_values.append_omitted_note(html, end, len(text), more=more)


@register.filter
def is_wide(value: Any) -> bool:
    """Return whether a value needs a row of its own."""
    return json_values.is_wide(value)


@register.filter
def short_digest(text: str) -> str:
    """Return the beginning and the end of a digest."""
    return f"{text[:12]}…{text[-4:]}" if len(text) > 20 else text


@register.filter
def members(mapping: Mapping[str, Any] | None) -> list[tuple[str, Any]]:
    """Return the names and values of an agent's object, in order."""
    return list(mapping.items()) if mapping else []


@register.filter
def warnings(value: Any) -> hidden_characters.Warnings:
    """Return the hidden and look-alike characters of a text or value: `{% with hint=value|warnings %}`."""
    return hidden_characters.warnings_in(value)
