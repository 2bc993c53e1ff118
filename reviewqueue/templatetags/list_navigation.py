"""The list that a person came from, in the links and forms of a wait. Called by the templates only."""

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
    """Return the query of the list, for a form that takes it along."""
    return list_navigation.came_from(context["request"]).query()


@register.simple_tag(takes_context=True)
def onward(context: Context) -> str:
    """Return what a link adds to take the list along."""
    return list_navigation.onward(list_navigation.came_from(context["request"]))


@register.simple_tag(takes_context=True)
def list_address(context: Context) -> str:
    """Return where the list is."""
    return list_navigation.list_address(context["request"])


@register.simple_tag(takes_context=True)
def neighbours(context: Context, interrupt: Interrupt) -> tuple[Interrupt | None, Interrupt | None]:
    """Return the waits before and after this one in the list."""
    came, now = list_navigation.came_from(context["request"]), context.get("now") or clock.now()
    return inbox.neighbours(context["request"].user, interrupt, view=came.view, filters=came.filters, now=now)


@register.simple_tag(takes_context=True)
def just_done(context: Context) -> list_navigation.JustDone | None:
    """Return the decision that led to this page."""
    return list_navigation.just_done(context["request"], now=context["now"])
