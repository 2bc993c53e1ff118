"""Text of messages, rendered when they are sent, from the rows as they are then.

A line is rendered only if its recipient still has the permission to see it and it still matters. Of an agent's text a
message contains the title of a request or run only: quoted, on one line, of at most 120 characters, with hidden
characters visible, and without anything that a mail program turns into a link. Links open a page and change nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth.models import AbstractUser
from django.core.mail import EmailMultiAlternatives
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone, translation
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from ledger import clock
from reviewqueue import permissions
from reviewqueue.models import ChatChannel, Notification, NotificationMessage
from reviewqueue.notifications.account_mail import account_link
from reviewqueue.notifications.kinds import ACCOUNT, WHILE_OPEN, NotificationKind
from reviewqueue.notifications.messages import MAX_IN_DIGEST, MAX_READ
from reviewqueue.notifications.preferences import language_of, preferences_of, zone_of
from reviewqueue.text.hidden_characters import mark_hidden_plain
from reviewqueue.text.times import datetime_label, duration_label
from runs.models import Interrupt
from runs.states import InterruptStatus, Risk

MAX_TITLE_LENGTH = 120
MAX_SUBJECT_TITLE_LENGTH = 60
#: A dot, colon, at sign or slash between letters makes a mail program show a link.
_LINK_MARK = re.compile(r"(?<=\w)([.:@/\\])(?=[^\W\d]|/)|(?<=[:/])(/)(?=\S)")
_VERDICT_AT_EXPIRY = {
    "cancel": gettext_lazy("The run ends."),
    "fail": gettext_lazy("The run fails."),
    "resume": gettext_lazy("The run continues without an answer."),
    "default": gettext_lazy("The default answer applies."),
}


@dataclass(frozen=True, kw_only=True)
class Line:
    """One event of a message. ``title`` is agent text, neutralised; ``url`` opens a page."""

    heading: str
    title: str
    facts: list[str]
    url: str
    thread: str


def render_mail(message: NotificationMessage) -> EmailMultiAlternatives | None:
    """Return the mail; ``None`` if nothing of it concerns its recipient any more."""
    person = message.person
    if person is None or not person.is_active or not person.email:
        return None
    preferences = preferences_of([person]).get(person.pk)
    with timezone.override(zone_of(preferences)), translation.override(language_of(preferences)):
        lines, omitted = _lines(message, person)
        if not lines:
            return None
        is_account = message.notifications.filter(kind__in=ACCOUNT).exists()
        subject = _subject(lines, omitted)
        context = {
            "lines": lines,
            "omitted": omitted,
            "subject": subject,
            "preferences_url": "" if is_account else _address("notifications"),
            "base_url": settings.BASE_URL,
        }
        mail = EmailMultiAlternatives(
            subject=subject,
            body=render_to_string("mail/message.txt", context),
            to=[person.email],
            headers=_headers(message, lines),
        )
        mail.attach_alternative(render_to_string("mail/message.html", context), "text/html")
    return mail


def render_chat(message: NotificationMessage) -> str | None:
    """Return the text of a chat message, without any agent text; ``None`` if it does not matter any more."""
    chat = message.chat
    if chat is None or chat.removed_at is not None:
        return None
    with timezone.override(timezone.get_default_timezone()):
        lines, _omitted = _lines(message, chat)
    return "\n".join("\n".join([line.heading, *line.facts, line.url]) for line in lines) or None


def message_id(message: NotificationMessage) -> str:
    """Return the Message-ID, the same in every attempt, so that a mail server can recognise a duplicate."""
    return f"<{message.public_id}@{urlsplit(settings.BASE_URL).hostname}>"


def _headers(message: NotificationMessage, lines: list[Line]) -> dict[str, str]:
    headers = {"Message-ID": message_id(message), "Auto-Submitted": "auto-generated"}
    if len(lines) == 1 and lines[0].thread:
        headers["References"] = f"<{lines[0].thread}@{urlsplit(settings.BASE_URL).hostname}>"
    return headers


def _subject(lines: list[Line], omitted: int) -> str:
    if len(lines) > 1:
        return _("Review queue: {number} notifications").format(number=len(lines) + omitted)
    title = _shortened(lines[0].title, MAX_SUBJECT_TITLE_LENGTH)
    return _("{heading}: “{title}”").format(heading=lines[0].heading, title=title) if title else lines[0].heading


def _lines(message: NotificationMessage, recipient: AbstractUser | ChatChannel) -> tuple[list[Line], int]:
    """Return the lines that still matter, oldest first, and how many were left out."""
    rows = message.notifications.select_related("agent", "run", "interrupt__queue", "interrupt__run").order_by("pk")
    lines: list[Line] = []
    now, omitted, last = clock.now(), 0, 0
    while some := list(rows.filter(pk__gt=last)[:MAX_READ]):
        last = some[-1].pk
        for row in some:
            if not _still_matters(row, recipient, now=now):
                continue
            if len(lines) < MAX_IN_DIGEST:
                lines.append(_line(row, now=now, with_title=not isinstance(recipient, ChatChannel)))
            else:
                omitted += 1
        if len(lines) >= min(MAX_IN_DIGEST, MAX_READ):  # the rest is counted without a check of each
            return lines, omitted + message.notifications.filter(pk__gt=last).count()
    return lines, omitted


def _still_matters(row: Notification, recipient: AbstractUser | ChatChannel, *, now: datetime) -> bool:
    interrupt = row.interrupt
    if row.kind in WHILE_OPEN and interrupt is not None:
        if interrupt.status != InterruptStatus.WAITING or interrupt.deadline <= now:
            return False
        if isinstance(recipient, ChatChannel):
            return interrupt.queue_id == recipient.queue_id
        return permissions.why_not_decide(recipient, interrupt) is None
    return isinstance(recipient, ChatChannel) or _may_see(row, recipient)


def _may_see(row: Notification, person: AbstractUser) -> bool:
    if row.kind in ACCOUNT:
        return True
    if row.interrupt is not None:
        return permissions.visible_interrupt(person, row.interrupt.public_id) is not None
    if row.run is not None:
        return permissions.visible_runs(person).filter(pk=row.run.pk).exists()
    return row.agent is not None and permissions.owned_agents(person).filter(pk=row.agent.pk).exists()


def _line(row: Notification, *, now: datetime, with_title: bool) -> Line:
    run_title = row.run.title if row.run is not None else ""
    title = row.interrupt.title if row.interrupt is not None else run_title
    return Line(
        heading=_heading(row),
        title=neutral_title(title) if with_title else "",
        facts=_facts(row, now=now),
        url=_url(row),
        thread=row.interrupt.public_id if row.interrupt is not None else row.run.public_id if row.run else "",
    )


def _heading(row: Notification) -> str:
    of_queue = None if row.interrupt is None else row.interrupt.queue
    queue = _("your queue") if of_queue is None else of_queue.slug
    agent = row.agent.slug if row.agent is not None else ""
    headings = {
        NotificationKind.REQUESTED: _("New request in {queue}"),
        NotificationKind.ASSIGNED: _("Request assigned to you in {queue}"),
        NotificationKind.MENTIONED: _("You were mentioned in {queue}"),
        NotificationKind.REMINDED: _("Deadline near in {queue}"),
        NotificationKind.ESCALATED: _("Request escalated to {queue}"),
        NotificationKind.EXPIRED: _("Request expired in {queue}"),
        NotificationKind.AMENDED: _("Request changed by its agent in {queue}"),
        NotificationKind.REOPENED: _("Request open again in {queue}"),
        NotificationKind.UNKNOWN: _("Unknown outcome of agent {agent}"),
        NotificationKind.HELD: _("Run of agent {agent} on hold"),
        NotificationKind.UNDELIVERED: _("Webhook messages of agent {agent} given up"),
        NotificationKind.HALTED: _("Agent {agent} halted"),
        NotificationKind.INVITED: _("Your account at Review Queue"),
        NotificationKind.RESET: _("Reset your password"),
    }
    return headings[NotificationKind(row.kind)].format(queue=queue, agent=agent)


def _facts(row: Notification, *, now: datetime) -> list[str]:
    """Return short sentences of our own about the event."""
    interrupt, kind = row.interrupt, row.kind
    facts = _facts_of_request(interrupt, now=now) if interrupt is not None and kind != NotificationKind.EXPIRED else []
    if kind == NotificationKind.EXPIRED:
        facts = [
            _("It was not decided before its deadline."),
            str(_VERDICT_AT_EXPIRY.get(row.details.get("do", ""), "")),
        ]
    elif kind == NotificationKind.UNKNOWN:
        facts = [_("An owner must find out what happened, and resolve it in Reconciliation.")]
    elif kind == NotificationKind.HELD:
        facts = [_("It does not continue until an owner lifts the hold.")]
    elif kind == NotificationKind.UNDELIVERED:
        number = row.details.get("messages", 1)
        text = ngettext(
            "{number} message was given up. You can send them again.",
            "{number} messages were given up. You can send them again.",
            number,
        )
        facts = [text.format(number=number)]
    elif kind == NotificationKind.HALTED:
        facts = [_("None of its runs can start, be claimed or begin an effect until an operator lifts the halt.")]
    elif kind == NotificationKind.INVITED:
        facts = [
            _("An operator added you. Choose a password to sign in. The link can be used once, within three days.")
        ]
    elif kind == NotificationKind.RESET:
        facts = [
            _("Choose a new password. The link can be used once, within three days."),
            _("If you did not ask for it, ignore this mail: your password is unchanged."),
        ]
    return [fact for fact in facts if fact]


def _facts_of_request(interrupt: Interrupt, *, now: datetime) -> list[str]:
    risk = {Risk.LOW: _("Low risk."), Risk.MEDIUM: _("Medium risk."), Risk.HIGH: _("High risk.")}[Risk(interrupt.risk)]
    if interrupt.status != InterruptStatus.WAITING:
        return [risk]
    left = duration_label(interrupt.deadline - now)
    deadline = datetime_label(interrupt.deadline, now=now)
    return [f"{risk} {_('Deadline: {time}, in {duration}.').format(time=deadline, duration=left)}"]


def _url(row: Notification) -> str:
    if row.kind in ACCOUNT and row.person is not None:
        return account_link(row.person)
    if row.interrupt is not None:
        return _address("interrupt", row.interrupt.public_id)
    if row.run is not None:
        return _address("run", row.run.public_id)
    if row.kind == NotificationKind.UNDELIVERED:
        return f"{_address('dead-letters')}?of=messages"
    return _address("agents")


def _address(name: str, *arguments: str) -> str:
    return settings.BASE_URL.rstrip("/") + reverse(name, args=arguments)


def neutral_title(text: str) -> str:
    """Return agent text for a mail: one line, bounded, hidden characters marked, and nothing that becomes a link."""
    return _LINK_MARK.sub(
        r"\1\2 ", _shortened(mark_hidden_plain(text.strip()[: 2 * MAX_TITLE_LENGTH]), MAX_TITLE_LENGTH)
    )


def _shortened(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"
