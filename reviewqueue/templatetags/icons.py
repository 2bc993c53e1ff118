"""Template tags for icons, tones, people and the theme.

Icons are files in `templates/icons`; an unknown name raises an error.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from django import template
from django.template.context import Context
from django.template.loader import get_template
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import pgettext_lazy

from reviewqueue.pages import code_labels
from reviewqueue.text import people
from reviewqueue.text.problem_texts import void_reason_text

register = template.Library()

THEMES = ("auto", "light", "dark")
RISKS = ("low", "medium", "high")
_TONES = {"success": "good", "warning": "warn", "error": "bad", "info": "act", "debug": "act"}
_TONE_ICONS = {"good": "check", "warn": "alert", "bad": "alert", "act": "info"}
_OUTCOME_ICONS = {
    "intended": "clock",
    "applied": "check",
    "failed": "cross",
    "unknown": "question",
    "compensated": "undo",
}
_OUTCOME_LABELS = {
    "intended": pgettext_lazy("effect", "intended"),
    "applied": pgettext_lazy("effect", "applied"),
    "failed": pgettext_lazy("effect", "failed"),
    "unknown": pgettext_lazy("effect", "unknown"),
    "compensated": pgettext_lazy("effect", "compensated"),
}
#: What a record of the audit log says was done.
_CHANGE_LABELS = {
    "created": pgettext_lazy("audit log", "created"),
    "changed": pgettext_lazy("audit log", "changed"),
    "removed": pgettext_lazy("audit log", "removed"),
    "added": pgettext_lazy("audit log", "added"),
    "enabled": pgettext_lazy("audit log", "enabled"),
    "disabled": pgettext_lazy("audit log", "disabled"),
    "factor added": pgettext_lazy("audit log", "factor added"),
    "factor removed": pgettext_lazy("audit log", "factor removed"),
    "halted": pgettext_lazy("audit log", "halted"),
    "lifted": pgettext_lazy("audit log", "lifted"),
    "made superuser": pgettext_lazy("audit log", "made superuser"),
    "owner changed": pgettext_lazy("audit log", "owner changed"),
    "password link": pgettext_lazy("audit log", "password link"),
    "password set": pgettext_lazy("audit log", "password set"),
    "revoked": pgettext_lazy("audit log", "revoked"),
    "role added": pgettext_lazy("audit log", "role added"),
    "role removed": pgettext_lazy("audit log", "role removed"),
    "roles by sign-on": pgettext_lazy("audit log", "roles by sign-on"),
    "rotated": pgettext_lazy("audit log", "rotated"),
    "second factor reset": pgettext_lazy("audit log", "second factor reset"),
    "secret rotated": pgettext_lazy("audit log", "secret rotated"),
    "sent again": pgettext_lazy("audit log", "sent again"),
    "sessions ended": pgettext_lazy("audit log", "sessions ended"),
    "reconciliation given": pgettext_lazy("audit log", "reconciliation given"),
    "disclosed": pgettext_lazy("audit log", "disclosed"),
}
_ICON_NAME = re.compile(r"[a-z]+(-[a-z]+)*")


@register.simple_tag
def icon(name: str) -> SafeString:
    """Return the icon as inline SVG: `{% icon "clock" %}`."""
    return drawing(name)


@register.simple_tag
def picture(name: str) -> SafeString:
    """Return the picture of an empty state as inline SVG: `{% picture "none-waiting" %}`."""
    return drawing(f"empty-{name}")


@register.simple_tag
def risk_icon(risk: str) -> SafeString:
    """Return the bars of a risk; an unknown risk gets the icon `question`."""
    return drawing(f"risk-{risk}" if risk in RISKS else "question")


@register.filter
def risk_label(risk: str) -> str:
    """Return the label of a risk: "High risk"."""
    return code_labels.risk_label(risk)


@lru_cache(maxsize=256)
def drawing(name: str) -> SafeString:
    """Return the SVG of one icon, read once per process."""
    if not _ICON_NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not a valid icon name")
    return mark_safe(get_template(f"icons/{name}.html").render().strip())  # noqa: S308  a template of this project


@register.filter
def tone(level: str) -> str:
    """Return the tone for a tone or for a level of Django's messages."""
    tones = [_TONES.get(name, name) for name in str(level).split()]
    return next((name for name in tones if name in _TONE_ICONS), "act")


@register.filter
def tone_icon(level: str) -> str:
    return _TONE_ICONS[tone(level)]


@register.filter
def outcome_icon(status: str) -> str:
    return _OUTCOME_ICONS.get(str(status), "question")


@register.filter
def outcome_label(status: str) -> str:
    return str(_OUTCOME_LABELS.get(str(status), status))


@register.filter
def void_reason(reason: str) -> str:
    return void_reason_text(reason)


@register.filter
def change_label(action: str) -> str:
    return str(_CHANGE_LABELS.get(action, action))


@register.filter
def person_name(person: Any) -> str:
    """Return the full name or else the address; a string is returned as it is."""
    if isinstance(person, str):
        return person
    return people.person_name(person)


@register.filter
def initial(person: Any) -> str:
    """Return the first letter or digit of a person's name."""
    return next((char.upper() for char in person_name(person) if char.isalnum()), "?")


@register.simple_tag(takes_context=True)
def theme(context: Context) -> str:
    """Return the theme from the cookie of this browser, or "auto"."""
    request = context.get("request")
    chosen = request.COOKIES.get("theme", "auto") if request else "auto"
    return chosen if chosen in THEMES else "auto"


@register.simple_tag(takes_context=True)
def themed(context: Context, choice: str) -> str:
    """Return ` checked` for the chosen theme."""
    return " checked" if theme(context) == choice else ""
