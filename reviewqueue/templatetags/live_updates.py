"""Template tags for pages that poll for changes."""

from __future__ import annotations

from django import template
from django.template.context import Context

from reviewqueue.pages.live_updates import request_state_tag
from runs.models import Interrupt

register = template.Library()


@register.simple_tag(takes_context=True)
def request_state(context: Context, interrupt: Interrupt) -> str:
    """Return the state of the request at render time, for the script that polls for changes."""
    return request_state_tag(interrupt, now=context["now"])
