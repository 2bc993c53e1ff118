"""Template context of the page of a request.

The heading comes from the stored call and its owner's label, never from a text of the agent. The agent's own texts are
passed on unchanged, for the frame that marks them as the agent's.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import AbstractUser
from django.urls import reverse
from django.utils.translation import gettext as _

from ledger import exact_json
from ledger.digests import digest
from ledger.models import Effect
from reviewqueue import permissions
from reviewqueue.drafts import author_token
from reviewqueue.inbox_preferences.snoozes import find_snooze
from reviewqueue.pages import code_labels
from reviewqueue.pages.call_labels import (
    CallText,
    Labels,
    describe_call,
    describe_call_in_a_list,
    labels_of,
    request_heading,
)
from reviewqueue.pages.interrupt.decision_evidence import new_evidence_budget, split_evidence
from reviewqueue.pages.interrupt.earlier_versions import previous_decisions
from reviewqueue.pages.interrupt.refusal_messages import names_of_deciders, why_cannot_decide
from reviewqueue.pages.runs.timeline_text import timeline_entries
from reviewqueue.pages.saved_replies import replies_to_insert
from reviewqueue.queries.page_queries import RequestPage
from reviewqueue.text.hidden_characters import warnings_in
from reviewqueue.text.json_values import RenderedValue, count_members, render_arguments, size_label
from reviewqueue.text.times import duration_label
from runs.interrupts import is_past_deadline, time_left
from runs.models import Agent, Comment, Fact, FactStatus, Interrupt
from runs.policies import needs_second_factor
from runs.states import Kind

LARGE_CALL = 8_000  # bytes of JSON text of the arguments
MAX_PEOPLE = 50
MAX_COMMENTS = 100
_EXTENSIONS = (timedelta(minutes=30), timedelta(hours=1), timedelta(hours=4), timedelta(days=1), timedelta(days=3))
#: How much a deadline can be extended by, by the number of seconds that the form sends.
EXTENSIONS = {str(int(extension.total_seconds())): extension for extension in _EXTENSIONS}
_SNOOZES = (timedelta(minutes=15), timedelta(hours=1), timedelta(hours=4), timedelta(days=1), timedelta(days=3))
#: For how long a request can be snoozed, by the number of seconds that the form sends.
SNOOZES = {str(int(duration.total_seconds())): duration for duration in _SNOOZES}


@dataclass(frozen=True, kw_only=True)
class FactRow:
    """One fact: its stored value, its last check, and what a change causes."""

    fact: Fact
    source: str
    on_change: str
    is_changed: bool
    is_checked: bool
    is_unavailable: bool


@dataclass(frozen=True, kw_only=True)
class EffectRow:
    """One effect with its call as a sentence."""

    effect: Effect
    words: CallText


@dataclass(frozen=True, kw_only=True)
class LargeCall:
    """The size of a large call, and how many of its members the page shows, as texts."""

    size: str
    shown: str
    members: str


@dataclass(frozen=True, kw_only=True)
class Gauge:
    """How much of the time until the deadline has passed, in percent."""

    passed: int
    remaining: int
    label: str


@dataclass(frozen=True, kw_only=True)
class Actions:
    """Actions beside the decision. ``people``: those to whom it can be assigned; ``extensions`` and ``snoozes``: seconds
    and their text; ``snoozed_until``: for the reader.
    """

    can_manage: bool
    people: tuple[AbstractUser, ...]
    assigned: frozenset[int]
    extensions: tuple[tuple[str, str], ...]
    snoozes: tuple[tuple[str, str], ...]
    snoozed_until: datetime | None
    comments: tuple[Comment, ...]


def build_interrupt_context(
    screen: RequestPage, *, reader: AbstractUser, now: datetime, edited: Any = None
) -> dict[str, Any]:
    """Return the template context. ``edited``: the edited arguments that would be approved instead."""
    interrupt = screen.interrupt
    proposal = interrupt.proposal
    calls = [(interrupt.agent_id, effect.row_call) for effect in screen.effects]
    labels = labels_of([*calls, (interrupt.agent_id, proposal)])
    call = None
    if proposal is not None:
        current = {"name": proposal["name"], "arguments": proposal["arguments"] if edited is None else edited}
        call = describe_call(current, labels.get((interrupt.agent_id, str(proposal["name"]))))
    heading, plain = request_heading(interrupt, labels)
    if call is not None and interrupt.kind == Kind.APPROVAL:
        heading = call.sentence
    shown_call = None if proposal is None else {"name": proposal["name"], "arguments": _arguments(proposal, edited)}
    # The review of an edit shows the changes instead of the whole call.
    replies = replies_to_insert(reader, interrupt.queue) if screen.is_open else []
    whole_call = reverse("call", args=[interrupt.public_id])
    rendered = None if call is None or edited is not None else render_arguments(call.arguments, more=whole_call)
    return {
        "section": "inbox",
        "now": now,
        "screen": screen,
        "interrupt": interrupt,
        "heading": heading,
        "plain": plain,
        "call": call,
        "call_digest": "" if call is None else digest({"name": call.name, "arguments": _arguments(proposal, edited)}),
        "proposed_digest": "" if proposal is None or edited is None else digest(_bare(proposal)),
        "heading_warnings": warnings_in(shown_call if interrupt.kind == Kind.APPROVAL else interrupt.title),
        "misread": [
            (place, found)
            for place, text in (
                (_("The call"), shown_call),
                (_("The agent’s title"), interrupt.title),
                (_("The agent’s message"), interrupt.message),
                (_("The evidence"), interrupt.evidence),
            )
            if (found := warnings_in(text))
        ],
        "actions": _actions(screen, reader=reader, now=now),
        "previous_decisions": previous_decisions(interrupt, reader=reader),
        "facts": [_fact_row(fact) for fact in screen.facts],
        "evidence_budget": new_evidence_budget(),
        "effects": effect_rows(screen.effects, interrupt.agent, labels),
        "evidence": [split_evidence(entry) for entry in interrupt.evidence],
        "timeline": timeline_entries(screen.events, reader=reader, waits=screen.waits)[::-1],
        "escalations": [
            (
                code_labels.queue_title(event.refs.get("before") or ""),
                code_labels.queue_title(event.refs["to"]),
                event.at,
            )
            for event in screen.escalations
        ],
        "escalation_levels": code_labels.escalation_levels(interrupt),
        "deadline_action": code_labels.deadline_outcome_short(interrupt),
        "gauge": _gauge(interrupt, now=now),
        "winner_done": "" if screen.winner is None else code_labels.done_label(screen.winner, interrupt.kind),
        "closed": code_labels.closed_label(interrupt),
        "rendered_call": rendered,
        "large_call": None if rendered is None else _large_call(proposal, rendered),
        "may_decide": screen.may_decide and not is_past_deadline(interrupt, now=now),
        "cannot_decide": why_cannot_decide(screen, now=now),
        "deciders": names_of_deciders(screen.why_not),
        "queue_name": code_labels.queue_name(interrupt.queue),
        "is_claimed": screen.held_by_other
        or (
            interrupt.claimed_by_id == reader.pk
            and interrupt.claimed_until is not None
            and interrupt.claimed_until > now
        ),
        "is_claimed_by_you": interrupt.claimed_by_id == reader.pk,
        "author_token": author_token(reader),
        "saved_replies": replies,
        "reply_texts": {reply.pk: reply.text for reply in replies},
        "needs_second_factor": needs_second_factor(interrupt),
    }


def _actions(screen: RequestPage, *, reader: AbstractUser, now: datetime) -> Actions:
    """Return the actions to offer; ``reviewer_actions`` checks the permission again when a button is pressed."""
    interrupt = screen.interrupt
    queue = interrupt.queue  # a request without a queue waits for a time or a signal and cannot be assigned
    can_manage = screen.is_open and queue is not None and (screen.is_lead or permissions.is_operator(reader))
    deciders = list(permissions.deciders_of(queue)[:MAX_PEOPLE]) if queue is not None and can_manage else []
    if not interrupt.policy.self_review:
        deciders = [person for person in deciders if person.pk != interrupt.run.initiator_id]
    longest = now + interrupt.policy.deadline_max - interrupt.deadline
    snooze = find_snooze(reader, interrupt, now=now) if screen.is_open else None
    comments = Comment.objects.filter(interrupt=interrupt).select_related("person").order_by("-id")[:MAX_COMMENTS]
    return Actions(
        can_manage=can_manage,
        people=tuple(deciders),
        assigned=frozenset(person.pk for person in screen.assignees),
        extensions=tuple(
            (seconds, duration_label(extension).removesuffix(" 00 min"))
            for seconds, extension in EXTENSIONS.items()
            if can_manage and extension <= longest
        ),
        snoozes=tuple(
            (seconds, duration_label(duration).removesuffix(" 00 min"))
            for seconds, duration in SNOOZES.items()
            if screen.may_decide and duration < time_left(interrupt, now=now)
        ),
        snoozed_until=None if snooze is None else snooze.until,
        comments=tuple(comments)[::-1],
    )


def _large_call(proposal: Any, rendered: RenderedValue) -> LargeCall | None:
    """Return the size of a call that is large or not shown whole."""
    arguments = proposal["arguments"]
    size = len(exact_json.dumps(arguments).encode("utf-8", "surrogatepass"))
    if rendered.is_whole and size < LARGE_CALL:
        return None
    shown, members = f"{rendered.members:,}", f"{count_members(arguments):,}"
    return LargeCall(size=size_label(arguments), shown=shown, members=members)


def _arguments(proposal: Any, edited: Any) -> Any:
    return proposal["arguments"] if edited is None else edited


def _bare(proposal: Any) -> Any:
    return None if proposal is None else {"name": proposal["name"], "arguments": proposal["arguments"]}


def _fact_row(fact: Fact) -> FactRow:
    return FactRow(
        fact=fact,
        source=code_labels.fact_source(fact),
        on_change=code_labels.fact_on_change(fact),
        is_changed=fact.last_status == FactStatus.CHANGED,
        is_checked=fact.last_status in (FactStatus.CHANGED, FactStatus.SAME),
        is_unavailable=fact.last_status == FactStatus.UNAVAILABLE,
    )


def effect_rows(effects: list[Effect], agent: Agent, labels: Labels) -> list[EffectRow]:
    return [
        EffectRow(effect=effect, words=describe_call_in_a_list(effect.name, effect.row_call, labels, agent_id=agent.pk))
        for effect in effects
    ]


def _gauge(interrupt: Interrupt, *, now: datetime) -> Gauge:
    whole = max(interrupt.deadline - interrupt.created_at, timedelta(seconds=1))
    passed = min(100, max(0, round((now - interrupt.created_at) / whole * 100)))
    return Gauge(
        passed=passed, remaining=100 - passed, label=_("{passed} % of the time has passed").format(passed=passed)
    )
