"""The page of dead letters: signals that no wait took, messages that no receiver took, and what can be done about each.

``dead_letters`` and ``signal`` show; ``act`` and ``send_again`` are the POSTs of their buttons. Rows and rights are those of
``reviewqueue.queries.dead_letters``. What senders wrote is drawn inert.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode, urlsplit

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from ledger import clock
from ledger.errors import NotFound, Refusal
from reviewqueue.pages.rendering import PageRequest, foreign_is_missing, go_to, show
from reviewqueue.pages.runs.run_actions import LONGEST_REASON
from reviewqueue.queries import dead_letters as letters
from reviewqueue.queries.dead_letters import Letters
from runs.external_signals import signal_status

MESSAGES = "messages"
KEPT_WORDS: dict[str, str] = {
    "used": "It woke its wait.",
    "kept": "It is kept for 7 more days; no wait asks for it now.",
    "dead": "Its body does not fit what the open wait asks for: it is a dead letter still.",
}
_GONE = "This is no dead letter any more: it was taken, kept or dismissed meanwhile."


@require_safe
def dead_letters(request: PageRequest) -> HttpResponse:
    """List the signals, or with ``?of=messages`` the messages, that never arrived."""
    of_messages = request.GET.get("of") == MESSAGES
    read = letters.list_dead_messages if of_messages else letters.list_dead_signals
    found = read(request.user, after=request.GET.get("after", ""))
    context = _context(found, of_messages=of_messages, is_continued="after" in request.GET)
    context |= {"may_keep": letters.may_keep(request.user)}
    return show(request, "dead_letters/page.html", context)


def _context(found: Letters, *, of_messages: bool, is_continued: bool) -> dict[str, Any]:
    of = {"of": MESSAGES} if of_messages else {}
    return {
        "section": "agents",
        "now": clock.now(),
        "found": found,
        "of_messages": of_messages,
        "messages_shown": [(message, urlsplit(message.endpoint.url).hostname or "") for message in found.messages],
        "lists": [
            ("Signals", _address(), _count(found.signal_count), not of_messages),
            ("Webhook messages", _address(of=MESSAGES), _count(found.message_count), of_messages),
        ],
        "is_continued": is_continued,
        "first_url": _address(**of),
        "next_url": _address(**of, after=found.next) if found.next else "",
    }


def _count(number: int) -> str:
    return f"{letters.COUNTED}+" if number > letters.COUNTED else str(number)


def _address(**asked: str) -> str:
    return reverse("dead-letters") + (f"?{urlencode(asked)}" if asked else "")


@require_safe
@foreign_is_missing
def signal(request: PageRequest, signal_id: str) -> HttpResponse:
    """Show one signal with its whole body."""
    found, now = letters.read_signal(request.user, signal_id), clock.now()
    status = signal_status(found.signal, now=now)
    context = {"section": "agents", "now": now, "dead": found, "status": status}
    return show(request, "dead_letters/signal.html", context)


@require_POST
@foreign_is_missing
def act(request: PageRequest, signal_id: str, verb: str) -> HttpResponse:
    """Keep a dead letter longer, or dismiss it; both with a reason."""
    if verb not in ("keep", "dismiss"):
        raise Http404
    letters.read_signal(request.user, signal_id)  # a foreign one is missing; one that moved meanwhile is told below
    reason = request.POST.get("reason", "").strip()
    if not 0 < len(reason) <= LONGEST_REASON or "\x00" in reason:
        messages.error(request, f"Say why, in up to {LONGEST_REASON} characters. Nothing was done.")
        return go_to(request, _address())
    try:
        if verb == "keep":
            messages.success(request, KEPT_WORDS[letters.keep_longer(request.user, signal_id, reason=reason)])
        else:
            letters.dismiss(request.user, signal_id, reason=reason)
            messages.success(request, "Dismissed. The signal itself is kept, and so is your reason.")
    except NotFound:
        messages.error(request, _GONE)
    except Refusal as refusal:
        messages.error(request, refusal.detail)
    return go_to(request, _address())


@require_POST
@foreign_is_missing
def send_again(request: PageRequest, delivery_id: str) -> HttpResponse:
    """Send a message that was given up once more, now."""
    try:
        letters.send_message_again(request.user, delivery_id)
        messages.success(request, "It is sent once more, now: the same id, the same body.")
    except NotFound:
        raise
    except Refusal as refusal:
        messages.error(request, refusal.detail)
    return go_to(request, _address(of=MESSAGES))
