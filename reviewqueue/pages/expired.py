"""The page of expired requests: how each ended, what its run did since, and the restart of the run.

A restart that needs no review of effects is one button here. Otherwise it starts on the run's page.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib import messages
from django.http import HttpResponse, QueryDict
from django.urls import reverse
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from ledger import clock
from ledger.errors import NotFound, PayloadInvalid, Refusal
from ledger.states import EffectStatus
from reviewqueue.pages import code_labels
from reviewqueue.pages.call_labels import Labels, labels_of, request_heading_for_row
from reviewqueue.pages.empty_state import EmptyState
from reviewqueue.pages.inbox.list_request import ListRequest, read_list
from reviewqueue.pages.rendering import PageRequest, not_found_if_invisible, redirect_page, render_page
from reviewqueue.pages.runs.run_actions import LONGEST_REASON, reason_too_long
from reviewqueue.queries import expired as lapsed
from reviewqueue.queries.expired import ExpiredPage, ExpiredRequest
from reviewqueue.queries.inbox_filters import InboxFilters
from reviewqueue.queries.replica import reads_replica
from reviewqueue.resume_gateway import get_visible_interrupt
from reviewqueue.text.hidden_characters import render_exact
from reviewqueue.text.people import person_name
from reviewqueue.text.problem_texts import refusal_text
from runs.states import OnExpiry

#: Not translated: the timeline stores it for readers of every language.
DEFAULT_REASON = "No answer in time; ask again"
STANDING, EVERY = "standing", ""
_LONGEST_QUERY = 500


@dataclass(frozen=True, kw_only=True)
class ShownLapse:
    """One expired request. ``offers``: "press" for the restart button, "ask" for the link to the run's page, or empty."""

    lapse: ExpiredRequest
    title: SafeString
    plain: str
    queues: list[str]
    assignees: str
    who_can: str
    followed: str
    run_word: str
    run_icon: str
    run_tone: str
    effects: list[str]
    offers: str


@dataclass(frozen=True, kw_only=True)
class ExpiredAsked:
    """The list as asked for. ``standing``: only requests whose run can be restarted; ``rest``: parsed as in the inbox."""

    standing: bool
    rest: ListRequest

    @property
    def filters(self) -> InboxFilters:
        return InboxFilters(queue=self.rest.filters.queue, agent=self.rest.filters.agent)

    def query(self, *, standing: bool | None = None, after: str = "") -> str:
        """Return the query of this list, or of the other one (``standing``), from its start or from a place."""
        of = STANDING if (self.standing if standing is None else standing) else EVERY
        wanted = {"of": of, "queue": self.filters.queue, "agent": self.filters.agent, "after": after}
        query = QueryDict(mutable=True)
        query.update({name: value for name, value in wanted.items() if value})
        return query.urlencode()

    def address(self, *, standing: bool | None = None, after: str = "") -> str:
        query = self.query(standing=standing, after=after)
        return reverse("expired") + (f"?{query}" if query else "")


def read_asked(query: QueryDict) -> ExpiredAsked:
    """Parse the query; notices name ignored parameters."""
    known = QueryDict(mutable=True)
    for name in ("queue", "agent", "after"):
        known.setlist(name, query.getlist(name))
    return ExpiredAsked(standing=query.get("of") == STANDING, rest=read_list(known))


@require_safe
@reads_replica
def expired(request: PageRequest) -> HttpResponse:
    """List the requests that passed their deadline without an answer."""
    wanted = read_asked(request.GET)
    found = lapsed.list_expired(
        request.user, filters=wanted.filters, to_restart=wanted.standing, after=wanted.rest.after
    )
    return render_page(request, "expired/page.html", expired_context(found, wanted, now=clock.now()))


def expired_context(found: ExpiredPage, wanted: ExpiredAsked, *, now: datetime) -> dict[str, Any]:
    labels = labels_of((row.interrupt.agent_id, row.interrupt.row_proposal) for row in found.rows)
    return {
        "section": "inbox",
        "now": now,
        "rows": [shown_lapse(row, labels) for row in found.rows],
        "found": found,
        "asked": wanted,
        "preset": DEFAULT_REASON,
        "lists": [
            (_("All expired"), wanted.address(standing=False), not wanted.standing),
            (_("Can be restarted"), wanted.address(standing=True), wanted.standing),
        ],
        "queues": _also(wanted.filters.queue, [(slug, code_labels.queue_title(slug)) for slug in found.queues]),
        "agents": _also(wanted.filters.agent, [(slug, slug) for slug in found.agents]),
        "here": wanted.query(after=wanted.rest.after),
        "first_url": wanted.address(),
        "next_url": wanted.address(after=found.next) if found.next else "",
        "empty": None if found.rows else _empty_list(wanted, is_continued=found.continued),
    }


def _empty_list(wanted: ExpiredAsked, *, is_continued: bool) -> EmptyState:
    if is_continued:
        return EmptyState(
            picture="none-waiting",
            heading=_("End of the list"),
            text=_("The runs of this page were restarted in the meantime."),
            url=wanted.address(),
            button=_("Back to the start"),
        )
    if wanted.standing or wanted.filters.any:
        return EmptyState(
            picture="no-match",
            heading=_("No matching requests"),
            text=_("No expired request that you can see matches the filters."),
            url=reverse("expired"),
            button=_("Show all expired requests"),
        )
    text = _("Requests that pass their deadline without an answer are listed here.")
    return EmptyState(picture="none-waiting", heading=_("No expired requests"), text=text)


def _also(chosen: str, found: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the options. A chosen value stays an option even if no request has it any more."""
    return [*found, (chosen, chosen)] if chosen and chosen not in dict(found) else found


def shown_lapse(row: ExpiredRequest, labels: Labels) -> ShownLapse:
    title, plain = request_heading_for_row(row.interrupt, row.interrupt.row_proposal, labels)
    word, icon, tone, __ = code_labels.run_label(row.run.status)
    return ShownLapse(
        lapse=row,
        title=title,
        plain=plain,
        queues=[code_labels.queue_title(slug) for slug in row.asked],
        assignees=_names([person_name(person) for person in row.assignees]),
        who_can=_names(row.who_can),
        followed=_followed(row),
        run_word=word,
        run_icon=icon,
        run_tone=tone,
        effects=_effect_texts(row.outcomes),
        offers="" if row.why_not or not row.can_be_restarted else "ask" if row.questions else "press",
    )


def _names(names: Iterable[str]) -> SafeString:
    return format_html_join(", ", "{}", ((render_exact(name, one_line=True),) for name in names))


def _effect_texts(outcomes: Mapping[str, int]) -> list[str]:
    """Return the number of effects with each outcome."""
    texts: dict[str, str] = {
        EffectStatus.APPLIED: _("{number} applied"),
        EffectStatus.COMPENSATED: _("{number} compensated"),
        EffectStatus.FAILED: _("{number} failed"),
        EffectStatus.UNKNOWN: _("{number} unknown"),
        EffectStatus.INTENDED: _("{number} in progress"),
    }
    return [text.format(number=outcomes[status]) for status, text in texts.items() if outcomes.get(status)]


def _followed(row: ExpiredRequest) -> str:
    """Return what the policy did at the deadline."""
    if not row.do:
        return ""
    if row.do == OnExpiry.RESUME:
        return _("The agent was notified and continued without an answer.")
    if row.do == OnExpiry.DEFAULT:
        verdict = code_labels.verdict_done("" if row.decision is None else row.decision.verdict)
        counted = _("By its policy it counted as {verdict}.").format(verdict=verdict)
        return f"{counted} {_('This ended the run.')}" if row.ended_run else counted
    if row.ended_run:
        return _("The run ended as failed.") if row.do == OnExpiry.FAIL else _("The run ended as expired.")
    return _("Another request of the run stayed open.")


@require_POST
@not_found_if_invisible
def restart(request: PageRequest, interrupt_id: str) -> HttpResponse:
    """Restart the run of an expired request; a message says what followed, or why it was refused."""
    reason = request.POST.get("reason", "").strip()
    wanted = read_asked(QueryDict(request.POST.get("list", "")[:_LONGEST_QUERY]))
    back = wanted.address(after=wanted.rest.after)
    if not 0 < len(reason) <= LONGEST_REASON or "\x00" in reason:
        messages.error(request, reason_too_long())
        return redirect_page(request, back)
    try:
        run = lapsed.restart_expired(request.user, interrupt_id, reason=reason)
    except NotFound:
        raise
    except PayloadInvalid:
        messages.error(request, _("The run was not restarted: review its failed or compensated effects first."))
        return redirect_page(
            request, f"{reverse('run', args=[get_visible_interrupt(request.user, interrupt_id).run.public_id])}#actions"
        )
    except Refusal as refusal:
        messages.error(request, f"{_('The run was not restarted.')} {refusal_text(refusal)}")
    else:
        done = _("Restarted as epoch {number}. The run continues when its facts have been checked.")
        messages.success(request, done.format(number=run.epoch))
    return redirect_page(request, back)
