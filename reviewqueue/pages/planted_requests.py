"""The pages of planted requests: the list with outcomes, and the form, empty or filled in from an earlier request.

`reviewqueue.review_quality.planted_requests` checks the permissions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from ledger.errors import NotFound, PayloadInvalid, Refusal
from ledger.exact_json import dumps, parse
from reviewqueue import permissions
from reviewqueue.pages.rendering import PageRequest, not_found_if_invisible, redirect_page, render_page
from reviewqueue.queries.pagination import find_primary_key
from reviewqueue.review_quality import planted_requests
from reviewqueue.review_quality.planted_requests import CATCHING, MAX_FAULT, STATUS_LABELS
from reviewqueue.standing_rules.administration import agents_of_queues
from reviewqueue.text.problem_texts import refusal_text, translate_problem
from runs.models import Interrupt, PlantedRequest

PAGE_SIZE = 50
MAX_SENT = 100_000  # characters of a field that are read
FIELDS = ("queue", "copy_of", "agent", "reason", "call", "title", "message", "arguments", "fault")
#: Verdicts as the decision form names them.
VERDICT_LABELS = {"reject": gettext_noop("Reject"), "respond": gettext_noop("Request changes")}


@require_safe
@not_found_if_invisible
def planted(request: PageRequest) -> HttpResponse:
    """List the planted requests that the lead can see, newest first."""
    _refuse_others(request)
    found = planted_requests.visible_planted(request.user)
    after = request.GET.get("after", "")
    place = find_primary_key(PlantedRequest, after) if after else None
    rows = list((found.filter(pk__lt=place) if place else found)[: PAGE_SIZE + 1])
    context = {
        "section": "inbox",
        "rows": [(row, _(STATUS_LABELS[planted_requests.status_of(row)])) for row in rows[:PAGE_SIZE]],
        "next": rows[PAGE_SIZE - 1].public_id if len(rows) > PAGE_SIZE else "",
        "reader": request.user,
    }
    return render_page(request, "planted_requests/page.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@not_found_if_invisible
def new_planted(request: PageRequest) -> HttpResponse:
    """Show the form, empty or filled in from a request; plant the request."""
    _refuse_others(request)
    if request.method != "POST":
        example = planted_requests.find_example(request.user, request.GET.get("copy_of", "")[:40])
        return _form_page(request, _from_request(example), list(CATCHING))
    texts = {name: request.POST.get(name, "").replace("\0", "")[:MAX_SENT].strip() for name in FIELDS}
    expected = [verdict for verdict in CATCHING if verdict in request.POST.getlist("expected")]
    try:
        named = {name: text for name, text in texts.items() if name != "arguments"}
        made = planted_requests.plant(
            request.user, **named, arguments=_arguments(texts["arguments"]), expected=expected
        )
    except NotFound:
        raise
    except PayloadInvalid as refused:
        faults = {problem.pointer.lstrip("/"): translate_problem(problem.message) for problem in refused.errors}
        return _form_page(request, texts, expected, faults=faults)
    except Refusal as refusal:
        return _form_page(request, texts, expected, problem=refusal_text(refusal))
    messages.success(request, _("The request is planted in %(queue)s.") % {"queue": made.queue.slug})
    return redirect_page(request, reverse("planted-requests"))


@require_POST
@not_found_if_invisible
def withdraw(request: PageRequest, planted_id: str) -> HttpResponse:
    """Withdraw an open planted request."""
    try:
        planted_requests.withdraw(request.user, planted_id)
    except NotFound:
        raise
    except Refusal as refusal:
        messages.error(request, refusal_text(refusal))
    else:
        messages.success(request, _("The planted request is withdrawn."))
    return redirect_page(request, reverse("planted-requests"))


def _refuse_others(request: PageRequest) -> None:
    if not permissions.led_queues(request.user).exists():
        raise NotFound


def _arguments(text: str) -> Any:
    try:
        return parse(text)
    except PayloadInvalid:
        raise PayloadInvalid.at("/arguments", 'must be a JSON object, such as {"amount": "12.50"}') from None


def _from_request(example: Interrupt | None) -> dict[str, str]:
    texts = dict.fromkeys(FIELDS, "")
    if example is None or example.queue is None:
        return texts | {"arguments": "{}"}
    return texts | {
        "copy_of": example.public_id,
        "queue": example.queue.slug,
        "agent": example.agent.slug,
        "reason": example.reason,
        "call": example.proposal["name"],
        "title": example.title,
        "message": example.message,
        "arguments": dumps(example.proposal["arguments"]),
    }


def _form_page(
    request: PageRequest,
    texts: dict[str, str],
    expected: Sequence[str],
    *,
    faults: dict[str, str] | None = None,
    problem: str = "",
) -> HttpResponse:
    led, faults = list(permissions.led_queues(request.user)), faults or {}
    context = {
        "section": "inbox",
        "texts": texts,
        "verdicts": [(verdict, _(VERDICT_LABELS[verdict]), verdict in expected) for verdict in CATCHING],
        "queues": [queue.slug for queue in led],
        "agents": list(agents_of_queues(led).values_list("slug", flat=True)),
        "max_fault": MAX_FAULT,
        "faults": faults,
        "problem": problem or (_("Some fields are not valid.") if faults else ""),
    }
    return render_page(request, "planted_requests/form.html", context, status=422 if faults or problem else 200)
