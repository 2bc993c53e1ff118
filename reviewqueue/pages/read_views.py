"""The read-only pages: the inbox, receipts, runs."""

from __future__ import annotations

import re

from django.http import HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_safe

from ledger import clock
from reviewqueue import resume_gateway
from reviewqueue.pages.inbox.inbox_list import inbox_context
from reviewqueue.pages.inbox.list_navigation import address_of_next, list_address, next_request
from reviewqueue.pages.inbox.list_request import read_list
from reviewqueue.pages.inbox.saved_filters import saved_filters_context
from reviewqueue.pages.live_updates import answer_list
from reviewqueue.pages.receipt.receipt_context import build_receipt_context
from reviewqueue.pages.rendering import PageRequest, not_found_if_invisible, render_page
from reviewqueue.pages.runs.run_context import run_context, runs_context
from reviewqueue.queries import page_queries
from reviewqueue.queries.dead_letters import count_dead_letters
from reviewqueue.queries.open_requests import shown_number
from reviewqueue.queries.replica import reads_replica
from runs.states import RunStatus

_SLUG = re.compile(r"[-a-zA-Z0-9_]{1,60}")


@require_safe
def inbox(request: PageRequest) -> HttpResponse:
    """List requests, sorted by risk and time left."""
    now = clock.now()
    asked = read_list(request.GET)
    if request.htmx and request.htmx.target == "list":
        return answer_list(request, asked, now=now)
    context = inbox_context(request.user, asked, now=now) | saved_filters_context(request.user, asked)
    dead = count_dead_letters(request.user) if request.user.is_staff else 0
    return render_page(
        request, "inbox/page.html", context | {"now": now, "dead": dead, "shown_dead": shown_number(dead)}
    )


@require_safe
@not_found_if_invisible
def receipt(request: PageRequest, decision_id: str) -> HttpResponse:
    """Show one decision and the progress of the call that it allows."""
    now = clock.now()
    screen = page_queries.get_receipt_page(request.user, decision_id)
    following = next_request(request, screen.interrupt, now=now)
    context = build_receipt_context(screen, following, reader=request.user, now=now)
    if request.htmx and request.GET.get("so_far") == context["progress_tag"]:
        return HttpResponse(status=204)  # unchanged: nothing to swap or to read out
    return render_page(request, "interrupt/receipt.html", context)


@require_safe
@not_found_if_invisible
def following(request: PageRequest, interrupt_id: str) -> HttpResponse:
    """Redirect to the request that a decision would open next; the page's script fetches it in advance."""
    interrupt = resume_gateway.get_visible_interrupt(request.user, interrupt_id)
    return redirect(address_of_next(request, interrupt) or list_address(request))


@require_safe
@reads_replica
def runs(request: PageRequest) -> HttpResponse:
    """List the runs that the reader can see, or only those started for the reader or stranded."""
    status, agent = request.GET.get("status", ""), request.GET.get("agent", "")
    asked = page_queries.RunListFilters(
        mine=request.GET.get("of") == "me",
        stranded=request.GET.get("of") == "stranded",
        status=status if status in RunStatus.values else "",
        agent=agent if _SLUG.fullmatch(agent) else "",
    )
    found = page_queries.list_runs(request.user, asked, after=request.GET.get("after", ""))
    now = clock.now()
    return render_page(request, "runs/list.html", runs_context(found, asked, reader=request.user, now=now))


@require_safe
@not_found_if_invisible
def run(request: PageRequest, run_id: str) -> HttpResponse:
    """Show one run with its requests, effects, history and checkpoints."""
    now = clock.now()
    asked = {name: request.GET.get(name, "") for name in ("effects", "waits", "events")}
    screen = page_queries.get_run_page(request.user, run_id, page_queries.RunPositions(**asked))
    return render_page(request, "runs/page.html", run_context(screen, reader=request.user, now=now))
