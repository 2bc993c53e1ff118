"""Labels of stored codes: verdicts, decisions, run statuses, holds, deadlines and facts. Reads no database rows itself."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from runs.interrupts import action_at_deadline, remaining_escalation_levels
from runs.models import Decision, Fact, FactCheck, FactKind, Interrupt, Queue
from runs.standing_rules import BY_RULE
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

#: The verb of each verdict in the past tense.
VERDICT_DONE: dict[str, str] = {
    Verdict.APPROVE: "approved",
    Verdict.EDIT: "edited and approved",
    Verdict.REJECT: "rejected",
    Verdict.RESPOND: "requested changes",
    Verdict.ANSWER: "answered",
    Verdict.DECLINE: "declined to answer",
    "": "gave no answer",
}


def done_label(decision: Decision, kind: str) -> str:
    """Return what a decision did, in the past tense. ``kind`` is that of its request."""
    if kind == Kind.TIMER and not decision.verdict:
        return "reached its time"
    return VERDICT_DONE.get(decision.verdict, "answered")


def decider_label(decision: Decision, kind: str) -> str:
    """Return the name of the person who decided, or what decided instead: "a signal", "its timer"."""
    if decision.by is not None:
        name = str(decision.by.get_full_name() or decision.by.get_username())
        return f"{name} (standing rule)" if decision.door == BY_RULE else name
    if decision.signal_id is not None:
        return "a signal"
    return "its timer" if kind == Kind.TIMER else "the policy’s default"


#: Decision status -> label and tone.
DECISION_LABELS: dict[str, tuple[str, str]] = {
    DecisionStatus.ACCEPTED: ("accepted", "good"),
    DecisionStatus.COUNTED: ("counted: more approvals of the same call are needed", "act"),
    DecisionStatus.OVERTAKEN: ("superseded by a change, kept as a record", "warn"),
    DecisionStatus.REVOKED: ("undone", "warn"),
    DecisionStatus.STALE: ("refused: it was for an older version", "bad"),
    DecisionStatus.LATE: ("refused: it was too late", "bad"),
    DecisionStatus.DENIED: ("refused: not allowed", "bad"),
    DecisionStatus.INVALID: ("refused: it was invalid", "bad"),
    DecisionStatus.DUPLICATE: ("refused: another decision was first", "bad"),
}

#: Run status -> label, icon, tone and meaning.
RUN_LABELS: dict[str, tuple[str, str, str, str]] = {
    RunStatus.RUNNING: ("running", "play", "act", "A worker has the lease and works on the next step."),
    RunStatus.WAITING: ("waiting", "clock", "act", "The run waits for an answer. No worker or process is in use."),
    RunStatus.REVALIDATING: (
        "checking",
        "round",
        "act",
        "Decisions and facts are checked again before the run continues.",
    ),
    RunStatus.READY: ("ready", "play", "good", "Any worker can claim the run and continue it."),
    RunStatus.BLOCKED: ("blocked", "alert", "bad", "The run cannot continue until its holds are lifted."),
    RunStatus.PAUSED: ("paused", "pause", "warn", "No step begins until the run is resumed."),
    RunStatus.CANCELLING: (
        "ending",
        "undo",
        "warn",
        "The run is ending: unknown outcomes are resolved and effects are compensated.",
    ),
    RunStatus.COMPLETED: ("completed", "check", "good", "The run has finished its task."),
    RunStatus.FAILED: ("failed", "cross", "bad", "The run ended with an error."),
    RunStatus.CANCELLED: ("cancelled", "stop", "warn", "The run was cancelled."),
    RunStatus.EXPIRED: ("expired", "clock", "warn", "The run ended because no answer or no worker came in time."),
}

HOLD_LABELS: dict[str, str] = {
    HoldKind.UNKNOWN_EFFECT: "An effect has an unknown outcome",
    HoldKind.FACT_UNAVAILABLE: "A fact cannot be checked",
    HoldKind.STRANDED: "Three code versions of the agent cannot read its checkpoint",
    HoldKind.GAVE_UP: "Several workers claimed the run and none reached the next safe point",
    HoldKind.CONTRADICTION: "Two reports about one effect contradict each other",
    HoldKind.NO_DECIDER: "No reviewer can decide its request",
    HoldKind.UNSTABLE_KEY: "An effect’s key would change if its step were repeated",
    HoldKind.UNDO_FAILED: "An effect could not be compensated",
    HoldKind.CHECKPOINT_SPOILT: "The stored checkpoint does not match its digest",
    HoldKind.RESTORED: "A backup was restored, and this run has not been checked against other systems yet",
}

_EXPIRY_SHORT: dict[str, str] = {
    OnExpiry.CANCEL: "then the run expires",
    OnExpiry.FAIL: "then the run fails",
    OnExpiry.RESUME: "then it continues without",
}
_DEFAULT_SHORT: dict[str, str] = {
    Verdict.APPROVE: "then approved",
    Verdict.REJECT: "then rejected",
    Verdict.RESPOND: "then changes requested",
    Verdict.ANSWER: "then a default answer",
    Verdict.DECLINE: "then declined",
}


@dataclass(frozen=True, kw_only=True)
class EscalationLevel:
    """One escalation level: the queue, or what happens at the last deadline, and until when."""

    words: str
    sub: str = ""
    until: datetime | None = None
    is_now: bool = False


def deadline_outcome_short(interrupt: Interrupt) -> str:
    """Return what happens at the deadline, short: "then to Engineering leads", "then the run expires"."""
    rule = action_at_deadline(interrupt)
    if interrupt.kind == Kind.TIMER:
        return "then the run continues"
    if rule == OnExpiry.ESCALATE:
        return f"then to {queue_title(remaining_escalation_levels(interrupt)[0].queue)}"
    if rule == OnExpiry.DEFAULT:
        return _DEFAULT_SHORT.get(str(interrupt.on_expiry.get("verdict")), "then a default")
    return _EXPIRY_SHORT[rule]


def deadline_outcome(interrupt: Interrupt) -> str:
    """Return what happens at the deadline, as a sentence."""
    return _TIMER_LABEL if interrupt.kind == Kind.TIMER else _last_label(action_at_deadline(interrupt), interrupt)


_TIMER_LABEL = "The timer has elapsed: the run continues."


def escalation_levels(interrupt: Interrupt) -> list[EscalationLevel]:
    """Return the current queue, the queues of later escalations and what happens at the last deadline."""
    now = queue_name(interrupt.queue)
    if interrupt.queue is None:
        now = "Waits for its time" if interrupt.kind == Kind.TIMER else "Waits for the signal"
    levels = [EscalationLevel(words=now, until=interrupt.deadline, is_now=True)]
    rule = action_at_deadline(interrupt)
    until = interrupt.deadline
    for step in remaining_escalation_levels(interrupt):
        until += step.wait
        levels.append(EscalationLevel(words=queue_title(step.queue), until=until))
        rule = interrupt.policy.then
    last = _TIMER_LABEL if interrupt.kind == Kind.TIMER else _last_label(rule, interrupt)
    return [*levels, EscalationLevel(words=last)]


def _last_label(rule: str, interrupt: Interrupt) -> str:
    without = (
        "Without the signal" if interrupt.kind == Kind.EVENT and interrupt.queue_id is None else "Without an answer"
    )
    no_call = " The call is not made." if interrupt.kind == Kind.APPROVAL else ""
    if rule == OnExpiry.CANCEL:
        return f"{without} the run ends as expired.{no_call}"
    if rule == OnExpiry.FAIL:
        return f"{without} the run ends as failed.{no_call}"
    if rule == OnExpiry.RESUME:
        return f"{without} the agent continues and knows that the request expired."
    if rule == OnExpiry.ESCALATE:
        return f"{without} the request is escalated to the next queue."
    verdict = VERDICT_DONE.get(str(interrupt.on_expiry.get("verdict")), "answered")
    return f"{without} it counts as {verdict}, by the policy’s default."


def queue_name(queue: Queue | None) -> str:
    """Return the title of a queue: its slug with a capital letter and spaces."""
    return "No queue" if queue is None else queue_title(queue.slug)


def queue_title(slug: str) -> str:
    words = slug.replace("-", " ").replace("_", " ")
    return words[:1].upper() + words[1:]


def request_label(kind: str, reason: str) -> str:
    """Return what a request without a call asks for. The agent's own text is never part of it."""
    if kind == Kind.APPROVAL:
        return "Approve a call"
    if kind == Kind.EVENT:
        return "Wait for an external signal"
    if kind == Kind.TIMER:
        return "Wait for a timer"
    return {"evidence.missing": "Evidence is missing", "repair": "A run is stuck and needs help"}.get(
        reason, "Question"
    )


def fact_source(fact: Fact) -> str:
    """Return who checks the fact again."""
    if fact.check_by == FactCheck.CONNECTION and fact.connection is not None:
        return f"checked at {fact.connection.name}"
    if fact.check_by == FactCheck.WORKER:
        return "checked by the worker that continues"
    return "as stated by the agent; not checked again"


def fact_on_change(fact: Fact) -> str:
    """Return what happens if the fact changes after the decision."""
    if fact.check_by == FactCheck.NONE:
        return "not checked again"
    if fact.kind == FactKind.CREDENTIAL and fact.on_change == OnChange.REPLAN:
        return "the worker renews it" if fact.check_by == FactCheck.WORKER else "the run waits until it is valid again"
    return {
        OnChange.REPLAN: "the agent plans again, then asks again",
        OnChange.RENEW: "the review is renewed",
        OnChange.NOTE: "the agent is notified",
    }.get(OnChange(fact.on_change), "the agent is notified")


def closed_label(interrupt: Interrupt) -> tuple[str, str]:
    """Return how a request was closed: a label and an icon."""
    return {
        InterruptStatus.ANSWERED: ("answered", "check"),
        InterruptStatus.EXPIRED: ("expired", "clock"),
        InterruptStatus.WITHDRAWN: ("withdrawn", "undo"),
        InterruptStatus.CANCELLED: ("cancelled", "stop"),
        InterruptStatus.SUPERSEDED: ("superseded", "undo"),
    }.get(InterruptStatus(interrupt.status), ("waiting", "clock"))
