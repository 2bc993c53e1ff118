"""Template tags for times: `{% time_left deadline %}`, `{% datetime at %}`, `{{ duration|duration_label }}`.

"Now" is the context's `now`, which the view reads from the database's clock.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django import template
from django.template.context import Context
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

from reviewqueue.templatetags.icons import drawing
from reviewqueue.text import times

register = template.Library()


@register.simple_tag(takes_context=True)
def time_left(context: Context, deadline: datetime | None, now: datetime | None = None) -> SafeString:
    """Return the time left, with a clock icon and in red under one hour; empty without a deadline."""
    now = now or context.get("now")
    if deadline is None or now is None:
        return mark_safe("")
    soon = times.is_soon(deadline, now)
    return format_html(
        '<span class="when{}" title="{}">{}{}</span>',
        " soon" if soon else "",
        times.datetime_label(deadline, now=now),
        drawing("clock") if soon else "",
        times.time_left_label(deadline, now),
    )


@register.simple_tag(takes_context=True, name="datetime")
def datetime_tag(context: Context, at: datetime | None, short: bool = False, now: datetime | None = None) -> SafeString:
    """Return the time in the reader's zone, or "never"; `short=True` for tables and timelines."""
    if at is None:
        return _never()
    return times.datetime_element(at, now=now or context.get("now"), short=short)


@register.simple_tag
def exact_time(at: datetime | None) -> SafeString:
    """Return the time to the second in the reader's zone, for records: "2026-11-30 14:22:07 CET"; or "never"."""
    return _never() if at is None else times.exact_element(at)


@register.simple_tag
def time_zone() -> str:
    """Return the name of the reader's time zone: "Europe/Berlin"."""
    return timezone.get_current_timezone_name()


@register.filter
def duration_label(duration: timedelta | int | float) -> str:
    """Return a duration, or a number of seconds, without line breaks: "1 h 05 min"."""
    return _on_one_line(duration if isinstance(duration, timedelta) else timedelta(seconds=duration))


@register.filter
def since(earlier: datetime, later: datetime) -> str:
    """Return the duration between two times, without line breaks."""
    return _on_one_line(later - earlier)


@register.filter
def age(since_when: datetime, now: datetime) -> str:
    """Return the duration in whole minutes, so that a list does not change each second: "less than 1 min", "2 h 05 min"."""
    short = now - since_when < timedelta(minutes=1)
    return _("less than 1 min").replace(" ", "\N{NO-BREAK SPACE}") if short else _on_one_line(now - since_when)


def _never() -> SafeString:
    return format_html('<span class="faint">{}</span>', _("never"))


def _on_one_line(duration: timedelta) -> str:
    return times.duration_label(duration).replace(" ", "\N{NO-BREAK SPACE}")
