"""Labels of stored codes: verdicts, decisions, run statuses, holds, deadlines and facts. Reads no database rows itself."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext as _

from reviewqueue.text.people import person_name
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


def verdict_done(verdict: str) -> str:
    """Return the verb of a verdict in the past tense; an unknown one was answered."""
    return {
        Verdict.APPROVE: _("approved"),
        Verdict.EDIT: _("edited and approved"),
        Verdict.REJECT: _("rejected"),
        Verdict.RESPOND: _("requested changes"),
        Verdict.ANSWER: _("answered"),
        Verdict.DECLINE: _("declined to answer"),
        "": _("gave no answer"),
    }.get(verdict, _("answered"))


def you_done_label(verdict: str) -> str:
    """Return what the reader did: "You approved"."""
    return {
        Verdict.APPROVE: _("You approved"),
        Verdict.EDIT: _("You edited and approved"),
        Verdict.REJECT: _("You rejected"),
        Verdict.RESPOND: _("You requested changes"),
        Verdict.DECLINE: _("You declined to answer"),
        "": _("You gave no answer"),
    }.get(verdict, _("You answered"))


def done_label(decision: Decision, kind: str) -> str:
    """Return what a decision did, in the past tense. ``kind`` is that of its request."""
    if kind == Kind.TIMER and not decision.verdict:
        return _("reached its time")
    return verdict_done(decision.verdict)


def decider_label(decision: Decision, kind: str) -> str:
    """Return the name of the person who decided, or what decided instead: "a signal", "its timer"."""
    if decision.by is not None:
        name = person_name(decision.by)
        return _("{name} (standing rule)").format(name=name) if decision.door == BY_RULE else name
    if decision.signal_id is not None:
        return _("a signal")
    return _("its timer") if kind == Kind.TIMER else _("the policy’s default")


def decision_label(status: str) -> tuple[str, str]:
    """Return the label and the tone of a decision's status."""
    labels: dict[str, tuple[str, str]] = {
        DecisionStatus.ACCEPTED: (_("accepted"), "good"),
        DecisionStatus.COUNTED: (_("counted: more approvals of the same call are needed"), "act"),
        DecisionStatus.OVERTAKEN: (_("superseded by a change, kept as a record"), "warn"),
        DecisionStatus.REVOKED: (_("undone"), "warn"),
        DecisionStatus.STALE: (_("refused: it was for an older version"), "bad"),
        DecisionStatus.LATE: (_("refused: it was too late"), "bad"),
        DecisionStatus.DENIED: (_("refused: not allowed"), "bad"),
        DecisionStatus.INVALID: (_("refused: it was invalid"), "bad"),
        DecisionStatus.DUPLICATE: (_("refused: another decision was first"), "bad"),
    }
    return labels[status]


def run_label(status: str) -> tuple[str, str, str, str]:
    """Return the label, icon, tone and meaning of a run's status; an unknown status is its own label."""
    labels: dict[str, tuple[str, str, str, str]] = {
        RunStatus.RUNNING: (_("running"), "play", "act", _("A worker has the lease and works on the next step.")),
        RunStatus.WAITING: (
            _("waiting"),
            "clock",
            "act",
            _("The run waits for an answer. No worker or process is in use."),
        ),
        RunStatus.REVALIDATING: (
            _("checking"),
            "round",
            "act",
            _("Decisions and facts are checked again before the run continues."),
        ),
        RunStatus.READY: (_("ready"), "play", "good", _("Any worker can claim the run and continue it.")),
        RunStatus.BLOCKED: (_("blocked"), "alert", "bad", _("The run cannot continue until its holds are lifted.")),
        RunStatus.PAUSED: (_("paused"), "pause", "warn", _("No step begins until the run is resumed.")),
        RunStatus.CANCELLING: (
            _("ending"),
            "undo",
            "warn",
            _("The run is ending: unknown outcomes are resolved and effects are compensated."),
        ),
        RunStatus.COMPLETED: (_("completed"), "check", "good", _("The run has finished its task.")),
        RunStatus.FAILED: (_("failed"), "cross", "bad", _("The run ended with an error.")),
        RunStatus.CANCELLED: (_("cancelled"), "stop", "warn", _("The run was cancelled.")),
        RunStatus.EXPIRED: (
            _("expired"),
            "clock",
            "warn",
            _("The run ended because no answer or no worker came in time."),
        ),
    }
    return labels.get(status, (status, "flag", "", ""))


def hold_label(kind: str) -> str:
    """Return why a run is on hold."""
    labels: dict[str, str] = {
        HoldKind.UNKNOWN_EFFECT: _("An effect has an unknown outcome"),
        HoldKind.FACT_UNAVAILABLE: _("A fact cannot be checked"),
        HoldKind.STRANDED: _("Three code versions of the agent cannot read its checkpoint"),
        HoldKind.GAVE_UP: _("Several workers claimed the run and none reached the next safe point"),
        HoldKind.CONTRADICTION: _("Two reports about one effect contradict each other"),
        HoldKind.NO_DECIDER: _("No reviewer can decide its request"),
        HoldKind.UNSTABLE_KEY: _("An effect’s key would change if its step were repeated"),
        HoldKind.UNDO_FAILED: _("An effect could not be compensated"),
        HoldKind.CHECKPOINT_SPOILT: _("The stored checkpoint does not match its digest"),
        HoldKind.RESTORED: _("A backup was restored, and this run has not been checked against other systems yet"),
    }
    return labels.get(kind, _("The run is on hold"))


def risk_label(risk: str) -> str:
    """Return the label of a risk: "High risk"."""
    labels = {"high": _("High risk"), "medium": _("Medium risk"), "low": _("Low risk")}
    return labels.get(str(risk), str(risk).capitalize())


def part_label(part: str) -> str:
    """Return a part of a request for a sentence: "the evidence"."""
    labels = {
        "message": _("the message"),
        "facts": _("the facts"),
        "evidence": _("the evidence"),
        "call": _("the call"),
    }
    return labels.get(part, part)


def _expiry_short(rule: str) -> str:
    labels: dict[str, str] = {
        OnExpiry.CANCEL: _("then the run expires"),
        OnExpiry.FAIL: _("then the run fails"),
        OnExpiry.RESUME: _("then it continues without"),
    }
    return labels[rule]


def _default_short(verdict: str) -> str:
    labels: dict[str, str] = {
        Verdict.APPROVE: _("then approved"),
        Verdict.REJECT: _("then rejected"),
        Verdict.RESPOND: _("then changes requested"),
        Verdict.ANSWER: _("then a default answer"),
        Verdict.DECLINE: _("then declined"),
    }
    return labels.get(verdict, _("then a default"))


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
        return _("then the run continues")
    if rule == OnExpiry.ESCALATE:
        return _("then to {queue}").format(queue=queue_title(remaining_escalation_levels(interrupt)[0].queue))
    if rule == OnExpiry.DEFAULT:
        return _default_short(str(interrupt.on_expiry.get("verdict")))
    return _expiry_short(rule)


def deadline_outcome(interrupt: Interrupt) -> str:
    """Return what happens at the deadline, as a sentence."""
    return _timer_label() if interrupt.kind == Kind.TIMER else _last_label(action_at_deadline(interrupt), interrupt)


def _timer_label() -> str:
    return _("The timer has elapsed: the run continues.")


def escalation_levels(interrupt: Interrupt) -> list[EscalationLevel]:
    """Return the current queue, the queues of later escalations and what happens at the last deadline."""
    now = queue_name(interrupt.queue)
    if interrupt.queue is None:
        now = _("Waits for its time") if interrupt.kind == Kind.TIMER else _("Waits for the signal")
    levels = [EscalationLevel(words=now, until=interrupt.deadline, is_now=True)]
    rule = action_at_deadline(interrupt)
    until = interrupt.deadline
    for step in remaining_escalation_levels(interrupt):
        until += step.wait
        levels.append(EscalationLevel(words=queue_title(step.queue), until=until))
        rule = interrupt.policy.then
    last = _timer_label() if interrupt.kind == Kind.TIMER else _last_label(rule, interrupt)
    return [*levels, EscalationLevel(words=last)]


def _last_label(rule: str, interrupt: Interrupt) -> str:
    is_signal = interrupt.kind == Kind.EVENT and interrupt.queue_id is None
    without = _("Without the signal") if is_signal else _("Without an answer")
    no_call = " " + _("The call is not made.") if interrupt.kind == Kind.APPROVAL else ""
    if rule == OnExpiry.CANCEL:
        return _("{without} the run ends as expired.").format(without=without) + no_call
    if rule == OnExpiry.FAIL:
        return _("{without} the run ends as failed.").format(without=without) + no_call
    if rule == OnExpiry.RESUME:
        return _("{without} the agent continues and knows that the request expired.").format(without=without)
    if rule == OnExpiry.ESCALATE:
        return _("{without} the request is escalated to the next queue.").format(without=without)
    verdict = verdict_done(str(interrupt.on_expiry.get("verdict")))
    return _("{without} it counts as {verdict}, by the policy’s default.").format(without=without, verdict=verdict)


def queue_name(queue: Queue | None) -> str:
    """Return the title of a queue: its slug with a capital letter and spaces."""
    return _("No queue") if queue is None else queue_title(queue.slug)


def queue_title(slug: str) -> str:
    words = slug.replace("-", " ").replace("_", " ")
    return words[:1].upper() + words[1:]


def request_label(kind: str, reason: str) -> str:
    """Return what a request without a call asks for. The agent's own text is never part of it."""
    if kind == Kind.APPROVAL:
        return _("Approve a call")
    if kind == Kind.EVENT:
        return _("Wait for an external signal")
    if kind == Kind.TIMER:
        return _("Wait for a timer")
    labels = {"evidence.missing": _("Evidence is missing"), "repair": _("A run is stuck and needs help")}
    return labels.get(reason, _("Question"))


def fact_source(fact: Fact) -> str:
    """Return who checks the fact again."""
    if fact.check_by == FactCheck.CONNECTION and fact.connection is not None:
        return _("checked at {system}").format(system=fact.connection.name)
    if fact.check_by == FactCheck.WORKER:
        return _("checked by the worker that continues")
    return _("as stated by the agent; not checked again")


def fact_on_change(fact: Fact) -> str:
    """Return what happens if the fact changes after the decision."""
    if fact.check_by == FactCheck.NONE:
        return _("not checked again")
    if fact.kind == FactKind.CREDENTIAL and fact.on_change == OnChange.REPLAN:
        by_worker = fact.check_by == FactCheck.WORKER
        return _("the worker renews it") if by_worker else _("the run waits until it is valid again")
    return {
        OnChange.REPLAN: _("the agent plans again, then asks again"),
        OnChange.RENEW: _("the review is renewed"),
        OnChange.NOTE: _("the agent is notified"),
    }.get(OnChange(fact.on_change), _("the agent is notified"))


def closed_label(interrupt: Interrupt) -> tuple[str, str]:
    """Return how a request was closed: a label and an icon."""
    return {
        InterruptStatus.ANSWERED: (_("answered"), "check"),
        InterruptStatus.EXPIRED: (_("expired"), "clock"),
        InterruptStatus.WITHDRAWN: (_("withdrawn"), "undo"),
        InterruptStatus.CANCELLED: (_("cancelled"), "stop"),
        InterruptStatus.SUPERSEDED: (_("superseded"), "undo"),
    }.get(InterruptStatus(interrupt.status), (_("waiting"), "clock"))
