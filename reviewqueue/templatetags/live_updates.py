"""What a page tells the script that keeps it live. Called by the templates only."""

from __future__ import annotations

from django import template
from django.template.context import Context

from reviewqueue.pages.live_updates import standing_of
from runs.models import Interrupt

register = template.Library()


@register.simple_tag(takes_context=True)
def standing(context: Context, interrupt: Interrupt) -> str:
    """Return how a wait stands on this page; the script asks whether it still does."""
    return standing_of(interrupt, now=context["now"])
