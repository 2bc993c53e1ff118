"""Template tags for the list that the reader came from, in the links and forms of a request."""

from __future__ import annotations

from django import template
from django.template.context import Context

from ledger import clock
from reviewqueue.pages.inbox import list_navigation
from reviewqueue.queries import inbox
from runs.models import Interrupt

register = template.Library()


@register.simple_tag(takes_context=True)
def list_query(context: Context) -> str:
    """Return the query of the list, for a form field."""
    return list_navigation.came_from(context["request"]).query()


@register.simple_tag(takes_context=True)
def onward(context: Context) -> str:
    """Return the query that a link appends to pass the list on."""
    return list_navigation.list_suffix(list_navigation.came_from(context["request"]))


@register.simple_tag(takes_context=True)
def list_address(context: Context) -> str:
    return list_navigation.list_address(context["request"])


@register.simple_tag(takes_context=True)
def neighbours(context: Context, interrupt: Interrupt) -> tuple[Interrupt | None, Interrupt | None]:
    """Return the previous and the next request of the list."""
    came, now = list_navigation.came_from(context["request"]), context.get("now") or clock.now()
    return inbox.get_neighbours(context["request"].user, interrupt, view=came.view, filters=came.filters, now=now)


@register.simple_tag(takes_context=True)
def just_done(context: Context) -> list_navigation.JustDone | None:
    """Return the reader's decision that led to this page."""
    if "just_done" in context:
        found: list_navigation.JustDone | None = context["just_done"]
        return found
    return list_navigation.just_done(context["request"], now=context["now"])
