"""Our own words for what is stored as a code: deadlines and what follows them, verdicts, facts, holds, runs.

Called by views and templates, never with an agent's text. Nothing here reads the database; rows come with what they need.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from runs.deadlines import rule_at_end, steps_left
from runs.models import Fact, FactCheck, FactKind, Interrupt, Queue
from runs.states import (
    DecisionStatus,
    HoldKind,
    InterruptStatus,
    Kind,
    OnChange,
    OnExpiry,
    RunStatus,
    Verdict,
)

#: What a verdict is called after the act.
VERDICT_DONE: dict[str, str] = {
    Verdict.APPROVE: "approved",
    Verdict.EDIT: "changed and approved",
    Verdict.REJECT: "rejected",
    Verdict.RESPOND: "asked for more",
    Verdict.ANSWER: "answered",
    Verdict.DECLINE: "declined to answer",
    "": "gave no answer",
}

#: How a decision counts: the word, and its tone.
DECISION_WORDS: dict[str, tuple[str, str]] = {
    DecisionStatus.ACCEPTED: ("accepted", "good"),
    DecisionStatus.COUNTED: ("counted: others have to approve the same call", "act"),
    DecisionStatus.OVERTAKEN: ("overtaken by a change, kept as evidence", "warn"),
    DecisionStatus.REVOKED: ("taken back", "warn"),
    DecisionStatus.STALE: ("refused: it answered an older version", "bad"),
    DecisionStatus.LATE: ("refused: it came too late", "bad"),
    DecisionStatus.DENIED: ("refused: not allowed", "bad"),
    DecisionStatus.INVALID: ("refused: it did not fit", "bad"),
    DecisionStatus.DUPLICATE: ("refused: somebody was first", "bad"),
}

#: status -> word, icon, tone, and what it means in one sentence.
RUN_WORDS: dict[str, tuple[str, str, str, str]] = {
    RunStatus.RUNNING: ("running", "play", "act", "A worker holds it and goes on with the next step."),
    RunStatus.WAITING: ("waiting", "clock", "act", "It waits for an answer; no worker and no process is kept busy."),
    RunStatus.REVALIDATING: ("checking", "round", "act", "What it relies on is checked again before it goes on."),
    RunStatus.READY: ("ready", "play", "good", "Any free worker may go on with it."),
    RunStatus.BLOCKED: ("blocked", "alert", "bad", "It may not go on until what holds it is settled."),
    RunStatus.PAUSED: ("paused", "pause", "warn", "Nothing begins until somebody lets it go on."),
    RunStatus.CANCELLING: (
        "ending",
        "undo",
        "warn",
        "It is being ended; what is open outside is settled, what it did taken back.",
    ),
    RunStatus.COMPLETED: ("completed", "check", "good", "It did what it was started for."),
    RunStatus.FAILED: ("failed", "cross", "bad", "It ended with an error."),
    RunStatus.CANCELLED: ("cancelled", "stop", "warn", "Somebody ended it."),
    RunStatus.EXPIRED: ("expired", "clock", "warn", "It ended because nobody answered or took it in time."),
}

HOLD_WORDS: dict[str, str] = {
    HoldKind.UNKNOWN_EFFECT: "Nobody knows yet whether an outside effect happened",
    HoldKind.FACT_UNAVAILABLE: "A fact it relies on cannot be checked",
    HoldKind.STRANDED: "Three versions of the agent’s code could not read its checkpoint",
    HoldKind.GAVE_UP: "Several workers took it and none reached the next boundary",
    HoldKind.CONTRADICTION: "Two reports about one effect contradict each other",
    HoldKind.NO_DECIDER: "Nobody may decide what it asks",
    HoldKind.UNSTABLE_KEY: "An outside effect would not be known again if its step were done again",
    HoldKind.UNDO_FAILED: "An outside effect could not be taken back",
    HoldKind.CHECKPOINT_SPOILT: "The stored checkpoint is not what its digest says",
    HoldKind.RESTORED: "A backup was restored, and nobody has compared this run with the world yet",
}

_EXPIRY_SHORT: dict[str, str] = {
    OnExpiry.CANCEL: "then the run expires",
    OnExpiry.FAIL: "then the run fails",
    OnExpiry.RESUME: "then it goes on without",
}
_DEFAULT_SHORT: dict[str, str] = {
    Verdict.APPROVE: "then approved",
    Verdict.REJECT: "then rejected",
    Verdict.RESPOND: "then sent back",
    Verdict.ANSWER: "then a default answer",
    Verdict.DECLINE: "then declined",
}


@dataclass(frozen=True, kw_only=True)
class Rung:
    """One step of the ladder: who has it, or what happens, and until when."""

    words: str
    sub: str = ""
    until: datetime | None = None
    is_now: bool = False


def then_what(interrupt: Interrupt) -> str:
    """Return what happens at the deadline, for a row: "then to engineering-leads", "then the run expires"."""
    rule = rule_at_end(interrupt)
    if interrupt.kind == Kind.TIMER:
        return "then the run goes on"
    if rule == OnExpiry.ESCALATE:
        return f"then to {queue_title(steps_left(interrupt)[0].queue)}"
    if rule == OnExpiry.DEFAULT:
        return _DEFAULT_SHORT.get(str(interrupt.on_expiry.get("verdict")), "then a default")
    return _EXPIRY_SHORT[rule]


def at_zero(interrupt: Interrupt) -> str:
    """Return what happens at the deadline, as a sentence."""
    return _TIMER_WORDS if interrupt.kind == Kind.TIMER else _last_words(rule_at_end(interrupt), interrupt.on_expiry)


_TIMER_WORDS = "The time has come: the run goes on."


def ladder(interrupt: Interrupt) -> list[Rung]:
    """Return who has the wait now, who gets it next, and what the last deadline does."""
    rungs = [Rung(words=queue_name(interrupt.queue), until=interrupt.deadline, is_now=True)]
    rule = rule_at_end(interrupt)
    until = interrupt.deadline
    for step in steps_left(interrupt):
        until += step.wait
        rungs.append(Rung(words=queue_title(step.queue), until=until))
        rule = interrupt.policy.then
    last = _TIMER_WORDS if interrupt.kind == Kind.TIMER else _last_words(rule, interrupt.on_expiry)
    return [*rungs, Rung(words=last)]


def _last_words(rule: str, on_expiry: Mapping[str, Any]) -> str:
    if rule == OnExpiry.CANCEL:
        return "Nobody answered: the run ends as expired. Nothing of this is done."
    if rule == OnExpiry.FAIL:
        return "Nobody answered: the run ends as failed. Nothing of this is done."
    if rule == OnExpiry.RESUME:
        return "Nobody answered: the agent is told so and goes on without an answer."
    if rule == OnExpiry.ESCALATE:
        return "Nobody answered: the next queue is asked."
    verdict = VERDICT_DONE.get(str(on_expiry.get("verdict")), "answered")
    return f"Nobody answered: it counts as {verdict}, by the policy’s default."


def queue_name(queue: Queue | None) -> str:
    """Return how a queue is called for people: its slug with a capital letter and blanks."""
    return "Nobody is asked" if queue is None else queue_title(queue.slug)


def queue_title(slug: str) -> str:
    """Return a slug as a name."""
    words = slug.replace("-", " ").replace("_", " ")
    return words[:1].upper() + words[1:]


def asked_words(kind: str, reason: str, fields: int) -> str:
    """Return what a wait without a call asks for, in our own words: the agent's stand in their fence."""
    if kind == Kind.APPROVAL:
        return "Approve a call"
    if kind == Kind.EVENT:
        return "Wait for an outside signal"
    if kind == Kind.TIMER:
        return "Wait for a moment in time"
    count = f"{fields} fields" if fields > 1 else "1 field" if fields else ""
    if reason == "evidence.missing":
        return f"Evidence is missing, {count} to fill in" if count else "Evidence is missing"
    if reason == "repair":
        return f"A run is stuck, {count} to fill in" if count else "A run is stuck and needs help"
    return f"A question with {count} to fill in" if count else "A question to answer"


def fact_source(fact: Fact) -> str:
    """Return who checks a fact again."""
    if fact.check_by == FactCheck.CONNECTION and fact.connection is not None:
        return f"checked at {fact.connection.name}"
    if fact.check_by == FactCheck.WORKER:
        return "checked by the worker that goes on"
    return "as the agent stated it; not checked again"


def fact_on_change(fact: Fact) -> str:
    """Return what a change of the fact does after an answer."""
    if fact.check_by == FactCheck.NONE:
        return "nobody looks again"
    if fact.kind == FactKind.CREDENTIAL and fact.on_change == OnChange.REPLAN:
        return "the worker renews it" if fact.check_by == FactCheck.WORKER else "the run waits until it is valid again"
    return {
        OnChange.REPLAN: "the agent redoes what is affected, then asks again",
        OnChange.RENEW: "straight back to review",
        OnChange.NOTE: "the agent is told",
    }.get(OnChange(fact.on_change), "the agent is told")


def closed_words(interrupt: Interrupt) -> tuple[str, str]:
    """Return how a wait ended: a word and an icon."""
    return {
        InterruptStatus.ANSWERED: ("answered", "check"),
        InterruptStatus.EXPIRED: ("expired", "clock"),
        InterruptStatus.WITHDRAWN: ("withdrawn", "undo"),
        InterruptStatus.CANCELLED: ("cancelled", "stop"),
        InterruptStatus.SUPERSEDED: ("superseded", "undo"),
    }.get(InterruptStatus(interrupt.status), ("waiting", "clock"))
