"""Live updates of the inbox and of a request's page, which htmx polls every two seconds.

The list answers 304 for up to 15 seconds while no row changed and no claim ended. Otherwise it is rendered, and the answer
is still 304 if the text is the same. A request answers with a notice if its state differs from what the page shows. An
expired session is not redirected to sign-in, so that the page keeps the draft.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256

from django.contrib.auth.models import AbstractUser
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from ledger import clock
from reviewqueue import permissions
from reviewqueue.pages import code_labels
from reviewqueue.pages.inbox.inbox_list import inbox_context
from reviewqueue.pages.inbox.list_request import ListRequest
from reviewqueue.pages.rendering import PageRequest
from reviewqueue.queries import inbox
from reviewqueue.text.people import person_name
from runs.decisions import Tally, find_winning_decision, tally_votes_of
from runs.interrupts import is_past_deadline
from runs.models import Interrupt
from runs.states import InterruptStatus

RENDERED_AFTER = 15  # seconds: relative times advance, and changes without an event become visible
_STATE_TAG = re.compile(r"([a-z]{1,10})\.([0-9]{1,9})\.([0-9]{1,18})\.([0-9]{1,5})\.([0-9]{1,5})([a-z]?[0-9a-f]{0,8})")
_OVERDUE = "overdue"


def answer_list(request: PageRequest, asked: ListRequest, *, now: datetime) -> HttpResponse:
    """Return the list, or 304 if the browser has it."""
    trace = inbox.get_list_fingerprint(request.user, view=asked.view, filters=asked.filters, after=asked.after, now=now)
    quarter = int(now.timestamp() / RENDERED_AFTER)
    moves = _digest(f"{request.user.pk} {quarter} {asked.query(with_place=True)} {trace}")
    had_moves, __, had_text = _had(request).partition(".")
    if had_moves == moves:
        return _answer(HttpResponse(status=304), f"{moves}.{had_text[:64]}")
    drawn = render(request, "inbox/_live_update.html", inbox_context(request.user, asked, now=now))
    text = _digest(drawn.content.decode())
    return _answer(HttpResponse(status=304) if had_text == text else drawn, f"{moves}.{text}")


@require_safe
def request_state(request: PageRequest, interrupt_id: str) -> HttpResponse:
    """Return a notice on what changed since the page was rendered; 304 while the browser has the current state."""
    interrupt = permissions.visible_interrupt(request.user, interrupt_id)
    if interrupt is None:
        raise Http404
    now = clock.now()
    state = request_state_tag(interrupt, now=now)
    if _had(request) == state:
        return _answer(HttpResponse(status=304), state)
    moved = _moved(interrupt, request.GET.get("seen", ""), reader=request.user, now=now)
    context = {"moved": moved, "interrupt": interrupt, "now": now}
    return _answer(render(request, "interrupt/_status_notice.html", context), state)


def _had(request: PageRequest) -> str:
    """Return the ETag that the browser has; that of a compressed response is marked as weak."""
    return request.headers.get("If-None-Match", "").removeprefix("W/").strip('"')


def request_state_tag(interrupt: Interrupt, *, now: datetime) -> str:
    """Return what the page depends on: status, version, claimer, escalation level and votes."""
    is_overdue = interrupt.status == InterruptStatus.WAITING and is_past_deadline(interrupt, now=now)
    status = _OVERDUE if is_overdue else interrupt.status
    return (
        f"{status}.{interrupt.state_version}.{_claimer(interrupt, now=now)}.{interrupt.level}.{_votes_mark(interrupt)}"
    )


def _votes_mark(interrupt: Interrupt) -> str:
    """Return the number of votes on an open request and a digest of them.

    A vote changes no version, and an undone vote together with a new one changes no count.
    """
    so_far = _votes_on(interrupt)
    if so_far is None or not so_far.votes:
        return "0"
    return f"{so_far.counted}x{_digest(' '.join(vote.public_id for vote in so_far.votes))[:8]}"


def _votes_on(interrupt: Interrupt) -> Tally | None:
    return tally_votes_of([interrupt]).get(interrupt.pk) if interrupt.status == InterruptStatus.WAITING else None


def _claimer(interrupt: Interrupt, *, now: datetime) -> int:
    """Return the id of the person who claimed an open request, or 0."""
    is_held = interrupt.claimed_until is not None and interrupt.claimed_until > now
    return interrupt.claimed_by_id or 0 if is_held and interrupt.status == InterruptStatus.WAITING else 0


@dataclass(frozen=True, kw_only=True)
class Moved:
    """What changed: ``strong`` names it, ``words`` the consequence. ``is_inert``: a decision would be refused."""

    strong: str
    words: str
    is_inert: bool
    is_closed: bool = False
    reads_again: bool = False
    at: datetime | None = None
    decision_id: str = ""


def _moved(interrupt: Interrupt, seen: str, *, reader: AbstractUser, now: datetime) -> Moved | None:
    found = _STATE_TAG.fullmatch(seen)
    if found is None or found[1] != InterruptStatus.WAITING:
        return None
    version, holder, level = int(found[2]), int(found[3]), int(found[4])
    if interrupt.status != InterruptStatus.WAITING:
        return _closed(interrupt)
    if interrupt.state_version != version:
        words = _("You see version {version}; the current version is {state_version}. Your input is kept.").format(
            version=version, state_version=interrupt.state_version
        )
        return Moved(strong=_("The request has changed."), words=words, is_inert=True, reads_again=True)
    if is_past_deadline(interrupt, now=now):
        return Moved(strong=_("The deadline has passed."), words=code_labels.deadline_outcome(interrupt), is_inert=True)
    if interrupt.level > level:
        words = _("The request was escalated to {queue} with a new deadline.").format(
            queue=code_labels.queue_name(interrupt.queue)
        )
        if permissions.why_not_decide(reader, interrupt) is not None:
            words += " " + _("You can read it, but not decide it. Your input stays on this page.")
            return Moved(strong=_("No answer in time."), words=words, is_inert=True)
        return Moved(strong=_("No answer in time."), words=words, is_inert=False, reads_again=True)
    holds = _claimer(interrupt, now=now)
    if holds not in (0, reader.pk) and holds != holder and interrupt.claimed_by is not None:
        strong = _("{person} claimed this request.").format(person=_name(interrupt.claimed_by))
        return Moved(strong=strong, words=_("The claim ends"), is_inert=True, at=interrupt.claimed_until)
    if holder and holds == 0:
        strong = _("Your claim has ended.") if holder == reader.pk else _("The claim has ended.")
        words = _("Others can claim it; you can still decide.") if holder == reader.pk else _("You can claim it now.")
        return Moved(strong=strong, words=words, is_inert=False, reads_again=holder != reader.pk)
    if f"{found[5]}{found[6]}" != _votes_mark(interrupt):
        return _voted(interrupt, had=int(found[5]), reader=reader)
    return None


def _voted(interrupt: Interrupt, *, had: int, reader: AbstractUser) -> Moved | None:
    """Return a notice on new or undone votes; the reader's input and vote stay valid."""
    so_far = _votes_on(interrupt)
    if so_far is None:
        return None
    count = _("{counted} of {needed} approvals so far").format(counted=so_far.counted, needed=so_far.needed)
    if so_far.includes(reader):
        words = _("{count}; other reviewers must add the rest.").format(count=count)
        return Moved(strong=_("You approved this on another page."), words=words, is_inert=True)
    if so_far.counted < had or not so_far.votes:
        return Moved(strong=_("An approval was undone."), words=f"{count}.", is_inert=False, reads_again=True)
    last = so_far.votes[-1].by
    strong = (
        _("{person} approved this.").format(person=_name(last)) if last is not None else _("A reviewer approved this.")
    )
    more = (
        _("one more is needed")
        if so_far.missing == 1
        else _("{missing} more are needed").format(missing=so_far.missing)
    )
    if so_far.missing == 1 and permissions.why_not_decide(reader, interrupt) is None:
        more = _("yours is the last")
    return Moved(strong=strong, words=f"{count}; {more}.", is_inert=False, reads_again=True)


def _closed(interrupt: Interrupt) -> Moved:
    winner = find_winning_decision(interrupt)
    if winner is None:
        strong = _("This was {status}.").format(status=code_labels.closed_label(interrupt)[0])
        words = _("It cannot be decided any more. Your input is kept.")
        return Moved(strong=strong, words=words, is_inert=True, is_closed=True, at=interrupt.closed_at)
    who = capfirst(code_labels.decider_label(winner, interrupt.kind))
    return Moved(
        strong=f"{who} {code_labels.done_label(winner, interrupt.kind)}.",
        words=_("The request is closed. Your input is kept."),
        is_inert=True,
        is_closed=True,
        at=winner.created_at,
        decision_id=winner.public_id,
    )


def _name(person: AbstractUser) -> str:
    return person_name(person)


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:24]


def _answer(response: HttpResponse, tag: str) -> HttpResponse:
    """Set the ETag; the browser must not store the response, or it could show it as the page."""
    response["ETag"] = f'"{tag}"'
    response["Cache-Control"] = "no-store"
    return response
