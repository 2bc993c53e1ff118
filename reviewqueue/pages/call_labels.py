"""A stored call as a sentence: the label of the agent's owner (``CallLabel``), filled with the stored arguments.

Each ``{argument}`` of a label is replaced by the stored value, with hidden characters made visible and set apart from the
owner's text. Without a label the sentence is the call's name and its first arguments. Text of the agent is never used.

The heading of a request is that sentence, or what is asked with the agent's title as a quotation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from reviewqueue.pages import code_labels
from reviewqueue.pages.schema_forms import Field, Form
from reviewqueue.pages.schema_forms.fields import LINE, LINES, Group, Node
from reviewqueue.text import hidden_characters
from reviewqueue.text.agent_text import group_digits
from reviewqueue.text.hidden_characters import mark_hidden_plain, render_exact
from reviewqueue.text.json_values import Argument, is_amount
from runs.models import CallLabel, Interrupt
from runs.states import Kind

SHOWN_IN_A_SENTENCE = 60
SHOWN_IN_A_TITLE = 30
ARGUMENTS_IN_A_TITLE = 3

_PLACE = re.compile(r"\{([^{}]+)\}")
_SEPARATOR = re.compile(r"[\s_.-]+")
_MARK_AFTER = re.compile(r"[:,.;!?)]+")

#: Labels by agent id and call name.
Labels = Mapping[tuple[int, str], CallLabel]


@dataclass(frozen=True, kw_only=True)
class CallText:
    """A call as text. ``sentence`` is HTML, ``plain`` is for places that take no HTML."""

    name: str
    sentence: SafeString
    plain: str
    arguments: tuple[Argument, ...]
    is_labelled: bool


def labels_of(calls: Iterable[tuple[int, Mapping[str, Any] | None]]) -> Labels:
    """Return the labels for pairs of agent and call, with one query."""
    wanted = {(agent_id, str(call["name"])) for agent_id, call in calls if call is not None}
    if not wanted:
        return {}
    agents, names = {agent_id for agent_id, __ in wanted}, {name for __, name in wanted}
    labels = CallLabel.objects.filter(agent__in=agents, name__in=names)
    return {(label.agent_id, label.name): label for label in labels}


def describe_call(call: Mapping[str, Any], label: CallLabel | None) -> CallText:
    """``call`` has the members ``name`` and ``arguments``; ``label`` is that of the agent's owner."""
    given = call.get("arguments")
    values: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
    told: Mapping[str, Any] = label.arguments if label is not None and isinstance(label.arguments, dict) else {}
    arguments = tuple(_argument(name, value, told.get(name)) for name, value in values.items())
    name = str(call["name"])
    if label is None:
        return _unlabelled(name, arguments)
    by_name = {argument.name: argument for argument in arguments}
    sentence, plain = _filled(label.sentence, by_name)
    return CallText(name=name, sentence=sentence, plain=plain, arguments=arguments, is_labelled=True)


def describe_call_in_a_list(name: str, call: Mapping[str, Any] | None, labels: Labels, *, agent_id: int) -> CallText:
    """Return the text of a call in a list. ``call`` is ``None`` if it is too long to be loaded for a row."""
    if call is not None:
        return describe_call(call, labels.get((agent_id, name)))
    called = (
        format_html("<code>{}</code>", hidden_characters.render_exact(name, one_line=True)) if name else _("A call")
    )
    sentence = format_html(_("{call}, too long for a list"), call=called)
    plain = _("{call}, too long for a list").format(call=hidden_characters.mark_hidden_plain(name) or _("A call"))
    return CallText(name=name, sentence=sentence, plain=plain, arguments=(), is_labelled=False)


def labelled(form: Form, call: CallText) -> Form:
    """Return the form of a call's arguments with the owner's labels and units."""
    if not isinstance(form.root, Group):
        return form
    told = {argument.name: argument for argument in call.arguments}
    members = {name: _with_label(node, told.get(name)) for name, node in form.root.members.items()}
    return replace(form, root=replace(form.root, members=members))


def _with_label(node: Node, told: Argument | None) -> Node:
    if told is None or not isinstance(node, Field):
        return node
    unit = told.unit if told.is_amount else ""
    widget = LINE if unit and node.widget == LINES else node.widget  # an amount has one line
    return replace(node, owner_label=told.label, unit=unit, widget=widget)


def _argument(name: str, value: Any, told: Any) -> Argument:
    words = told if isinstance(told, Mapping) else {"label": told or ""}
    label = str(words.get("label") or "")
    if _plain_name(label) == _plain_name(name):
        label = ""  # the name says the same
    return Argument(name=name, label=label, unit=str(words.get("unit") or ""), value=value)


def _plain_name(name: str) -> str:
    return _SEPARATOR.sub(" ", name).strip().casefold()


def _unlabelled(name: str, arguments: tuple[Argument, ...]) -> CallText:
    called = format_html("<code>{}</code>", hidden_characters.render_exact(name, one_line=True))
    first = arguments[:ARGUMENTS_IN_A_TITLE]
    more = len(arguments) > ARGUMENTS_IN_A_TITLE
    marks = ["," if more or at + 1 < len(first) else "" for at in range(len(first))]
    shown = [
        f"<code>{_short_name(it.name)}</code> {_glued(_value_html(it, at_most=SHOWN_IN_A_TITLE), mark)}"
        for it, mark in zip(first, marks, strict=True)
    ]
    told = mark_safe(" ".join([*shown, *(["…"] if more else [])]))  # noqa: S308  every part was escaped
    values = [f"{it.name[:SHOWN_IN_A_TITLE]} {_plain_value(it, at_most=SHOWN_IN_A_TITLE)}" for it in first]
    plain = hidden_characters.mark_hidden_plain(", ".join([*values, *(["…"] if more else [])]))
    plain_name = hidden_characters.mark_hidden_plain(name)
    if plain:
        plain = _("Call {name}: {arguments}").format(name=plain_name, arguments=plain)
    else:
        plain = _("Call {name}, without arguments").format(name=plain_name)
    without = format_html(_("{call}, without arguments"), call=called)
    return CallText(
        name=name,
        sentence=format_html("{}: {}", called, told) if shown else without,
        plain=plain,
        arguments=arguments,
        is_labelled=False,
    )


def _short_name(name: str) -> SafeString:
    cut = name[:SHOWN_IN_A_SENTENCE]
    return hidden_characters.render_exact(cut + ("…" if cut != name else ""), one_line=True)


def _filled(sentence: str, arguments: Mapping[str, Argument]) -> tuple[SafeString, str]:
    """Return the sentence with its placeholders filled, as HTML and as plain text."""
    html, plain, at = [], [], 0
    for place in _PLACE.finditer(sentence):
        before = sentence[at : place.start()]
        argument = arguments.get(place[1].strip())
        mark = _MARK_AFTER.match(sentence, place.end())
        html += [
            escape(before),
            _glued(_value_html(argument) if argument else _missing(place[1]), mark[0] if mark else ""),
        ]
        plain += [before, _plain_value(argument) if argument else f"[no {place[1]}]", mark[0] if mark else ""]
        at = mark.end() if mark else place.end()
    html.append(escape(sentence[at:]))
    return mark_safe("".join(html)), "".join([*plain, sentence[at:]])  # noqa: S308  every part was escaped


def _glued(value: SafeString, mark: str) -> SafeString:
    """Return a value with the punctuation after it, so that no line begins with punctuation."""
    return format_html('<span class="glued">{}{}</span>', value, mark) if mark else value


def _missing(name: str) -> SafeString:
    return format_html('<span class="seen">no {}</span>', name)


def _value_html(argument: Argument, *, at_most: int = SHOWN_IN_A_SENTENCE) -> SafeString:
    """Return the value for a sentence, shortened and set apart; the list of arguments shows the whole value."""
    value = argument.value
    if is_amount(value) and (argument.unit or not isinstance(value, str)):
        return format_html('<span class="arg">{}</span>', group_digits(value))
    text = value if isinstance(value, str) else _amount_of_parts(value)
    cut = text[:at_most]
    rest = (
        format_html('<span class="seen calm">{}</span>', _("{number} more").format(number=len(text) - len(cut)))
        if cut != text
        else ""
    )
    return format_html(
        '<span class="arg">{}{}</span>', hidden_characters.render_exact(cut, one_line=True) if cut else "“”", rest
    )


def _plain_value(argument: Argument, *, at_most: int = SHOWN_IN_A_SENTENCE) -> str:
    text = argument.value if isinstance(argument.value, str) else _amount_of_parts(argument.value)
    return hidden_characters.mark_hidden_plain(text[:at_most]) + ("…" if len(text) > at_most else "")


def _amount_of_parts(value: Any) -> str:
    if isinstance(value, list):
        return ngettext("{number} entry", "{number} entries", len(value)).format(number=len(value))
    if isinstance(value, Mapping):
        return ngettext("{number} member", "{number} members", len(value)).format(number=len(value))
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    return _("nothing") if value is None else str(value)


# --- headings of requests ---------------------------------------------------------------------------------------------


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
    if not count:
        return ""
    return ngettext("{number} field to fill in", "{number} fields to fill in", count).format(number=count)


def _quoted(interrupt: Interrupt) -> tuple[SafeString, str]:
    """Only the agent's title distinguishes two questions; quotation marks set it apart from the server's text."""
    label = code_labels.request_label(interrupt.kind, interrupt.reason)
    html = format_html('{}: <q class="stated">{}</q>', label, render_exact(interrupt.title, one_line=True))
    return html, f"{label}: “{mark_hidden_plain(interrupt.title)}”"
