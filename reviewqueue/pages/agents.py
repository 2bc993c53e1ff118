"""The page of agents and their kill switches: halt one agent or all, and lift a halt.

``reviewqueue.operations.kill_switch`` checks the permissions.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib import messages
from django.contrib.auth.models import AbstractUser
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST, require_safe

from ledger.errors import NotFound, Refusal
from reviewqueue import permissions
from reviewqueue.operations import kill_switch
from reviewqueue.pages.empty_state import EmptyState
from reviewqueue.pages.rendering import PageRequest, not_found_if_invisible, render_page
from reviewqueue.pages.runs.run_actions import LONGEST_REASON, reason_too_long
from reviewqueue.queries import run_counts
from reviewqueue.text.problem_texts import refusal_text
from runs.kill_switch import open_halts
from runs.models import Agent, Halt

MOVES = ("halt", "lift")


def _empty_list() -> EmptyState:
    text = _("Members of an owner group see the agents of the group here; operators see all agents.")
    return EmptyState(picture="no-queue", heading=_("No agents"), text=text)


@dataclass(frozen=True, kw_only=True)
class ShownAgent:
    """One agent with its open runs and its halt."""

    agent: Agent
    open_runs: int
    working: int
    halt: Halt | None
    may_halt: bool
    may_lift: bool

    @property
    def open_label(self) -> str:
        """Return the number of open runs; above the limit of counting with a plus."""
        most = run_counts.MAX_COUNTED
        return f"{most}+" if self.open_runs > most else str(self.open_runs)


def agents_shown(reader: AbstractUser, *, only: Agent | None = None) -> list[ShownAgent]:
    """Return the agents of which the reader is an owner (for operators all agents), halted ones first."""
    owned = permissions.owned_agents(reader).select_related("owner").order_by("slug")
    found = list(owned if only is None else owned.filter(pk=only.pk))
    going, working = run_counts.count_open_runs(found), run_counts.count_leased_runs(found)
    halts = {halt.agent_id: halt for halt in open_halts().filter(agent__in=found)}
    shown = [
        ShownAgent(
            agent=agent,
            open_runs=going.get(agent.pk, 0),
            working=working.get(agent.pk, 0),
            halt=halts.get(agent.pk),
            may_halt=agent.pk not in halts and permissions.why_not_halt(reader, agent) is None,
            may_lift=agent.pk in halts and permissions.why_not_lift(reader, agent) is None,
        )
        for agent in found
    ]
    return sorted(shown, key=lambda one: one.halt is None)


@require_safe
def agents(request: PageRequest) -> HttpResponse:
    """List the agents of which the reader is an owner."""
    shown = agents_shown(request.user)
    context = {
        "section": "agents",
        "agents": shown,
        "is_operator": permissions.is_operator(request.user),
        "every": kill_switch.ALL_AGENTS,
        "may_halt_all": len(shown) > 1 and permissions.why_not_halt(request.user, None) is None,
        "may_lift_all": sum(one.may_lift for one in shown) > 1,
        "empty": None if shown else _empty_list(),
    }
    return render_page(request, "agents/page.html", context)


@require_POST
@not_found_if_invisible
def use_kill_switch(request: PageRequest, slug: str, move: str) -> HttpResponse:
    """Halt or lift; a message says what followed, or why it was refused."""
    if move not in MOVES:
        raise Http404
    reason = request.POST.get("reason", "").strip()
    if not 0 < len(reason) <= LONGEST_REASON or "\0" in reason:
        messages.error(request, reason_too_long())
    else:
        try:
            messages.success(request, _use(request.user, slug=slug, move=move, reason=reason))
        except NotFound:
            raise
        except Refusal as refusal:
            messages.error(request, refusal_text(refusal))
    return redirect("agents")


def _use(person: AbstractUser, *, slug: str, move: str, reason: str) -> str:
    if move == "lift":
        lifted = kill_switch.lift(person, slug=slug, reason=reason)
        return _("Halt lifted: {agents} can continue.").format(agents=_named(lifted))
    halted = kill_switch.halt(person, slug=slug, reason=reason)
    begun = len(halted.under_way)
    if not begun:
        return _("Halted: {agents}. No effect was in progress.").format(agents=_named(halted.agents))
    text = ngettext(
        "Halted: {agents}. {number} effect had already begun; its outcome is unknown.",
        "Halted: {agents}. {number} effects had already begun; their outcomes are unknown.",
        begun,
    )
    return text.format(agents=_named(halted.agents), number=begun)


def _named(slugs: list[str]) -> str:
    return ", ".join(slugs) if len(slugs) <= 5 else _("{number} agents").format(number=len(slugs))
