"""Signs in templates: icons, the tone of a notice, the sign of an outcome or a risk, a person's initial, the theme.

Called by the templates only. Icons are files in `templates/icons`; a name that is not there is a mistake of ours and raises.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from django import template
from django.template.context import Context
from django.template.loader import get_template
from django.utils.safestring import SafeString, mark_safe

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
_ICON_NAME = re.compile(r"[a-z]+(-[a-z]+)*")


@register.simple_tag
def icon(name: str) -> SafeString:
    """Return the icon as inline SVG: `{% icon "clock" %}`."""
    return drawing(name)


@register.simple_tag
def picture(name: str) -> SafeString:
    """Return the picture of an empty state: `{% picture "none-waiting" %}`."""
    return drawing(f"empty-{name}")


@register.simple_tag
def risk_icon(risk: str) -> SafeString:
    """Return the bars of a risk; a word that is no risk gets a question mark."""
    return drawing(f"risk-{risk}" if risk in RISKS else "question")


@lru_cache(maxsize=256)
def drawing(name: str) -> SafeString:
    """Return the markup of one icon; read once per process, since icons never change while it runs."""
    if not _ICON_NAME.fullmatch(name):
        raise ValueError(f"no icon can be called {name!r}")
    return mark_safe(get_template(f"icons/{name}.html").render().strip())  # noqa: S308  a file of our own


@register.filter
def tone(level: str) -> str:
    """Return our word for a tone, given ours or the level of Django's messages."""
    words = [_TONES.get(word, word) for word in str(level).split()]
    return next((word for word in words if word in _TONE_ICONS), "act")


@register.filter
def tone_icon(level: str) -> str:
    """Return the icon that goes with a tone."""
    return _TONE_ICONS[tone(level)]


@register.filter
def outcome_icon(status: str) -> str:
    """Return the icon that goes with an effect's outcome."""
    return _OUTCOME_ICONS.get(str(status), "question")


@register.filter
def person_name(person: Any) -> str:
    """Return how a person is called: the full name, else the address; a text stays as it is."""
    if isinstance(person, str):
        return person
    return str(person.get_full_name() or person.get_username())


@register.filter
def initial(person: Any) -> str:
    """Return the letter in a person's circle."""
    return next((char.upper() for char in person_name(person) if char.isalnum()), "?")


@register.simple_tag(takes_context=True)
def theme(context: Context) -> str:
    """Return the theme this browser chose, from its cookie; "auto" (the system's) without one."""
    request = context.get("request")
    chosen = request.COOKIES.get("theme", "auto") if request else "auto"
    return chosen if chosen in THEMES else "auto"


@register.simple_tag(takes_context=True)
def themed(context: Context, choice: str) -> str:
    """Return ` checked` beside the theme that is chosen."""
    return " checked" if theme(context) == choice else ""
