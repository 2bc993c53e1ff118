"""A wait as its page draws it: the screen's rows turned into words, once, for all the parts of the page.

Called by ``deciding``. What is asked is said by us, from the stored call and its owner's label; the agent's own words are
passed on as they are, for the fence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import AbstractUser
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from ledger.digests import digest
from ledger.models import Effect
from reviewqueue.pages import code_labels
from reviewqueue.pages.call_labels import CallWords, Labels, describe_call, describe_in_a_row, labels_of
from reviewqueue.pages.interrupt.action_panel import acts_around
from reviewqueue.pages.interrupt.call_browser import LARGE_FROM, size_of
from reviewqueue.pages.interrupt.decision_evidence import budget_of_grounds, split_evidence
from reviewqueue.pages.interrupt.permission_messages import why_not_now
from reviewqueue.pages.interrupt.previous_rounds import earlier_answers
from reviewqueue.pages.interrupt.refusal_page import who_can_in_words
from reviewqueue.pages.runs.timeline_text import tell
from reviewqueue.pages.unsent_input import mark_of
from reviewqueue.queries.page_queries import WaitScreen
from reviewqueue.text.hidden_characters import warnings_in
from reviewqueue.text.json_values import Drawn, count_members, draw_arguments, size_in_words
from runs.deadlines import is_over
from runs.models import Agent, Fact, FactStatus, Interrupt
from runs.states import Kind


@dataclass(frozen=True, kw_only=True)
class ShownFact:
    """One fact: what was relied on, what the last check found, and what a change does."""

    fact: Fact
    source: str
    on_change: str
    is_changed: bool
    is_checked: bool
    is_unavailable: bool


@dataclass(frozen=True, kw_only=True)
class ShownEffect:
    """One effect with its call in words."""

    effect: Effect
    words: CallWords


@dataclass(frozen=True, kw_only=True)
class LargeCall:
    """How large a call is, and how many of its members the page shows, as texts for the page."""

    size: str
    shown: str
    members: str


@dataclass(frozen=True, kw_only=True)
class Gauge:
    """How much of the time has gone, in hundredths of the bar."""

    gone: int
    rest: int
    words: str


def asked(interrupt: Interrupt, labels: Labels) -> tuple[SafeString, str]:
    """Return what is asked, made by us: as HTML and as plain text."""
    if interrupt.kind == Kind.APPROVAL and interrupt.proposal is not None:
        label = labels.get((interrupt.agent_id, str(interrupt.proposal["name"])))
        words = describe_call(interrupt.proposal, label)
        return words.sentence, words.plain
    told = code_labels.asked_words(interrupt.kind, interrupt.reason, _count_fields(interrupt))
    return format_html("{}", told), told


def asked_in_a_row(interrupt: Interrupt, proposal: Any, labels: Labels) -> tuple[SafeString, str]:
    """Return the request as HTML and as plain text for a list. ``proposal``: ``None`` if it is too long for a row."""
    if interrupt.kind != Kind.APPROVAL:
        told = code_labels.asked_words(interrupt.kind, interrupt.reason, _count_fields(interrupt))
        return format_html("{}", told), told
    name = "" if proposal is None else str(proposal["name"])
    words = describe_in_a_row(name, proposal, labels, agent_id=interrupt.agent_id)
    return words.sentence, words.plain


def _count_fields(interrupt: Interrupt) -> int:
    body = None if interrupt.schema is None else interrupt.schema.body
    properties = body.get("properties") if isinstance(body, Mapping) else None
    return len(properties) if isinstance(properties, Mapping) else 0


def wait_context(screen: WaitScreen, *, reader: AbstractUser, now: datetime, edited: Any = None) -> dict[str, Any]:
    """Return everything the page of a wait shows. ``edited``: the arguments that would be approved instead."""
    interrupt = screen.interrupt
    proposal = interrupt.proposal
    calls = [(interrupt.agent_id, effect.row_call) for effect in screen.effects]
    labels = labels_of([*calls, (interrupt.agent_id, proposal)])
    call = None
    if proposal is not None:
        shown = {"name": proposal["name"], "arguments": proposal["arguments"] if edited is None else edited}
        call = describe_call(shown, labels.get((interrupt.agent_id, str(proposal["name"]))))
    heading, plain = asked(interrupt, labels)
    if call is not None and interrupt.kind == Kind.APPROVAL:
        heading = call.short
    # With an edit only what it changes is drawn, not the call's own panel.
    panel = None if call is None or edited is not None else draw_arguments(call.arguments, more=every_value(interrupt))
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
        "warnings": warnings_in([interrupt.title, interrupt.message, _bare(proposal), interrupt.evidence]),
        "acts": acts_around(screen, reader=reader, now=now),
        "earlier": earlier_answers(interrupt, reader=reader),
        "facts": [shown_fact(fact) for fact in screen.facts],
        "grounds": budget_of_grounds(),
        "effects": shown_effects(screen.effects, interrupt.agent, labels),
        "evidence": [split_evidence(entry) for entry in interrupt.evidence],
        "story": tell(screen.events, reader=reader, waits=screen.waits)[::-1],
        "ladder": code_labels.ladder(interrupt),
        "then": code_labels.then_what(interrupt),
        "gauge": _gauge(interrupt, now=now),
        "winner_done": "" if screen.winner is None else code_labels.VERDICT_DONE.get(screen.winner.verdict, "answered"),
        "closed": code_labels.closed_words(interrupt),
        "drawn_call": panel,
        "large": None if panel is None else _large_call(proposal, panel),
        "may_decide": screen.may_decide and not is_over(interrupt, now=now),
        "why": why_not_now(screen, now=now),
        "who_can": who_can_in_words(screen.why_not),
        "queue_name": code_labels.queue_name(interrupt.queue),
        "held": screen.held_by_other
        or (
            interrupt.claimed_by_id == reader.pk
            and interrupt.claimed_until is not None
            and interrupt.claimed_until > now
        ),
        "is_mine": interrupt.claimed_by_id == reader.pk,
        "who": mark_of(reader),
    }


def every_value(interrupt: Interrupt) -> str:
    """Return the address of the page with every value of the call."""
    return reverse("call", args=[interrupt.public_id])


def _large_call(proposal: Any, panel: Drawn) -> LargeCall | None:
    """Return the size of a call that is long, or longer than its panel."""
    if panel.is_whole and size_of(proposal) < LARGE_FROM:
        return None
    arguments = proposal["arguments"]
    shown, members = f"{panel.members:,}", f"{count_members(arguments):,}"
    return LargeCall(size=size_in_words(arguments), shown=shown, members=members)


def _arguments(proposal: Any, edited: Any) -> Any:
    return proposal["arguments"] if edited is None else edited


def _bare(proposal: Any) -> Any:
    return None if proposal is None else {"name": proposal["name"], "arguments": proposal["arguments"]}


def shown_fact(fact: Fact) -> ShownFact:
    """Return a fact in words."""
    return ShownFact(
        fact=fact,
        source=code_labels.fact_source(fact),
        on_change=code_labels.fact_on_change(fact),
        is_changed=fact.last_status == FactStatus.CHANGED,
        is_checked=fact.last_status in (FactStatus.CHANGED, FactStatus.SAME),
        is_unavailable=fact.last_status == FactStatus.UNAVAILABLE,
    )


def shown_effects(effects: list[Effect], agent: Agent, labels: Labels) -> list[ShownEffect]:
    """Return effects with their calls in words."""
    return [
        ShownEffect(effect=effect, words=describe_in_a_row(effect.name, effect.row_call, labels, agent_id=agent.pk))
        for effect in effects
    ]


def _gauge(interrupt: Interrupt, *, now: datetime) -> Gauge:
    whole = max(interrupt.deadline - interrupt.created_at, timedelta(seconds=1))
    gone = min(100, max(0, round((now - interrupt.created_at) / whole * 100)))
    return Gauge(gone=gone, rest=100 - gone, words=f"{gone} hundredths of the time have passed")
