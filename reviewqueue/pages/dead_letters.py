"""The pages of dead letters: signals without a matching request, webhook messages and notifications that were given up.

``reviewqueue.queries.dead_letters`` selects the rows and checks permissions. Bodies of senders are rendered as inert text.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode, urlsplit

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_POST, require_safe

from ledger import clock
from ledger.errors import NotFound, Refusal
from reviewqueue.notifications.kinds import NotificationKind
from reviewqueue.pages.empty_state import EmptyState
from reviewqueue.pages.rendering import PageRequest, not_found_if_invisible, redirect_page, render_page
from reviewqueue.pages.runs.run_actions import LONGEST_REASON, reason_too_long
from reviewqueue.queries import dead_letters as letters
from reviewqueue.queries.dead_letters import DeadLetterPage
from reviewqueue.text.problem_texts import refusal_text
from runs.external_signals import signal_status

MESSAGES = "messages"
NOTIFICATIONS = "notifications"
STATUS_MESSAGES = {
    "used": gettext_lazy("The signal answered its request."),
    "kept": gettext_lazy("The signal is kept for 7 more days. No request matches it now."),
    "dead": gettext_lazy("The signal is still a dead letter: its body does not match the open request."),
}
_GONE = gettext_lazy("This signal is no longer a dead letter: it was used, kept or dismissed in the meantime.")


@require_safe
def dead_letters(request: PageRequest) -> HttpResponse:
    """List the signals, with ``?of=messages`` the webhook messages, or with ``?of=notifications`` the notifications."""
    asked = request.GET.get("of", "")
    of = asked if asked in _READERS else ""
    found = _READERS[of](request.user, after=request.GET.get("after", ""))
    context = _context(found, of=of, is_continued="after" in request.GET)
    if letters.may_see_notifications(request.user):
        count = _count(found.notification_count)
        context["lists"].append((_("Notifications"), _address(of=NOTIFICATIONS), count, of == NOTIFICATIONS))
    context |= {"may_keep": letters.may_keep_signal(request.user)}
    return render_page(request, "dead_letters/page.html", context)


_READERS = {
    "": letters.list_dead_signals,
    MESSAGES: letters.list_dead_messages,
    NOTIFICATIONS: letters.list_dead_notifications,
}


def _context(found: DeadLetterPage, *, of: str, is_continued: bool) -> dict[str, Any]:
    named = {"of": of} if of else {}
    is_empty = not (found.signals or found.messages or found.notifications)
    return {
        "section": "agents",
        "now": clock.now(),
        "found": found,
        "of_messages": of == MESSAGES,
        "notifications_shown": [
            (message, sorted({str(NotificationKind(one.kind).label) for one in message.notifications.all()}))
            for message in found.notifications
        ],
        "messages_shown": [(message, urlsplit(message.endpoint.url).hostname or "") for message in found.messages],
        "lists": [
            (_("Signals"), _address(), _count(found.signal_count), not of),
            (_("Webhook messages"), _address(of=MESSAGES), _count(found.message_count), of == MESSAGES),
        ],
        "empty": _empty_list(of, is_continued=is_continued) if is_empty else None,
        "is_continued": is_continued,
        "first_url": _address(**named),
        "next_url": _address(**named, after=found.next) if found.next else "",
    }


def _empty_list(of: str, *, is_continued: bool) -> EmptyState:
    if is_continued:
        return EmptyState(
            picture="none-waiting",
            heading=_("End of the list"),
            text=_("The entries of this page were used, sent or dismissed in the meantime."),
            url=_address(**({"of": of} if of else {})),
            button=_("Back to the start"),
        )
    if of == NOTIFICATIONS:
        text = _("Mail and chat messages that could not be sent are listed here.")
        return EmptyState(picture="none-waiting", heading=_("No unsent notifications"), text=text)
    if of == MESSAGES:
        text = _("Webhook messages of your agents whose retries are exhausted are listed here.")
        return EmptyState(picture="none-waiting", heading=_("No undelivered messages"), text=text)
    text = _("Signals to your agents that match no request in time are listed here.")
    return EmptyState(picture="none-waiting", heading=_("No unmatched signals"), text=text)


def _count(number: int) -> str:
    return f"{letters.MAX_COUNTED}+" if number > letters.MAX_COUNTED else str(number)


def _address(**asked: str) -> str:
    return reverse("dead-letters") + (f"?{urlencode(asked)}" if asked else "")


@require_safe
@not_found_if_invisible
def signal(request: PageRequest, signal_id: str) -> HttpResponse:
    """Show one signal with its whole body."""
    found, now = letters.get_dead_signal(request.user, signal_id), clock.now()
    status = signal_status(found.signal, now=now)
    context = {"section": "agents", "now": now, "dead": found, "status": status}
    return render_page(request, "dead_letters/signal.html", context)


@require_POST
@not_found_if_invisible
def perform_action(request: PageRequest, signal_id: str, verb: str) -> HttpResponse:
    """Keep a dead letter longer, or dismiss it; both with a reason."""
    if verb not in ("keep", "dismiss"):
        raise Http404
    letters.get_dead_signal(
        request.user, signal_id
    )  # an invisible signal is a 404; one that changed in the meantime is reported below
    reason = request.POST.get("reason", "").strip()
    if not 0 < len(reason) <= LONGEST_REASON or "\x00" in reason:
        messages.error(request, reason_too_long())
        return redirect_page(request, _address())
    try:
        if verb == "keep":
            messages.success(request, STATUS_MESSAGES[letters.keep_dead_signal(request.user, signal_id, reason=reason)])
        else:
            letters.dismiss_signal(request.user, signal_id, reason=reason)
            messages.success(request, _("Dismissed. The signal and your reason are kept."))
    except NotFound:
        messages.error(request, _GONE)
    except Refusal as refusal:
        messages.error(request, refusal_text(refusal))
    return redirect_page(request, _address())


@require_POST
@not_found_if_invisible
def send_again(request: PageRequest, delivery_id: str) -> HttpResponse:
    """Send a webhook message again after its retries are exhausted."""
    try:
        letters.resend_dead_message(request.user, delivery_id)
        messages.success(request, _("The message is sent again now, with the same id and the same body."))
    except NotFound:
        raise
    except Refusal as refusal:
        messages.error(request, refusal_text(refusal))
    return redirect_page(request, _address(of=MESSAGES))


@require_POST
@not_found_if_invisible
def resend_notification(request: PageRequest, message_id: str) -> HttpResponse:
    """Send a notification again after it was given up."""
    letters.resend_dead_notification(request.user, message_id)
    messages.success(request, _("The notification is sent again now, with the same message id."))
    return redirect_page(request, _address(of=NOTIFICATIONS))
