"""Template context of a decision's receipt: the decision, its permit, and the progress of its run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from django.contrib.auth.models import AbstractUser
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop, ngettext

from ledger.digests import digest
from ledger.states import EffectStatus
from reviewqueue import reviewer_actions
from reviewqueue.pages import code_labels
from reviewqueue.pages.call_labels import describe_call, labels_of, request_heading
from reviewqueue.pages.interrupt.earlier_versions import next_round, overtaking_facts
from reviewqueue.pages.runs.unclaimed_text import describe_unread
from reviewqueue.queries.page_queries import ReceiptPage
from reviewqueue.review_quality.planted_requests import may_see_outcome
from reviewqueue.review_quality.reading_pace import find_fast
from reviewqueue.text.json_diff_text import LimitedChanges, changes_between, limit_changes
from reviewqueue.text.problem_texts import void_reason_text
from reviewqueue.text.times import duration_label
from reviewqueue.webhooks.models import Delivery, DeliveryStatus
from runs.attachments import attachments_of
from runs.decisions import decided_by_label
from runs.models import Continuation, Decision, Event, Interrupt
from runs.planted_requests import find_disclosed
from runs.revisions import arguments_shown_at
from runs.states import APPROVING, ContinuationStatus, DecisionStatus, InterruptStatus, PlantedOutcome, Verdict
from runs.unclaimed_continuations import UnclaimedRun, find_unclaimed

_STEP_LABELS = (
    gettext_noop("Checked again"),
    gettext_noop("Ready"),
    gettext_noop("Claimed"),
    gettext_noop("Continued"),
)
_EXECUTION: dict[str, str] = {
    EffectStatus.INTENDED: gettext_noop("The effect has begun"),
    EffectStatus.APPLIED: gettext_noop("The effect was applied"),
    EffectStatus.FAILED: gettext_noop("The effect failed and was not applied"),
    EffectStatus.UNKNOWN: gettext_noop("The effect has an unknown outcome"),
    EffectStatus.COMPENSATED: gettext_noop("The effect was applied and later compensated"),
}


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step from the decision to the continued run: ``state`` is "done", "now" or "to come"."""

    label: str
    detail: str = ""
    at: datetime | None = None
    state: str = "to come"


def build_receipt_context(
    screen: ReceiptPage, following: Interrupt | None, *, reader: AbstractUser, now: datetime
) -> dict[str, Any]:
    """Return the template context. ``following``: the next request of the reader's list."""
    decision, interrupt = screen.decision, screen.interrupt
    proposals = [(one.agent_id, one.proposal) for one in (interrupt, following) if one is not None]
    labels = labels_of(proposals)
    allowed = screen.permit.call if screen.permit is not None else None
    proposal = allowed or interrupt.proposal
    call = None
    if proposal is not None:
        call = describe_call(proposal, labels.get((interrupt.agent_id, str(proposal["name"]))))
    __, plain = request_heading(interrupt, labels)
    status_label, status_tone = code_labels.decision_label(decision.status)
    may_undo = _can_be_undone(screen, reader=reader, now=now)
    unclaimed = _unclaimed(screen, now=now)
    planted = find_disclosed(interrupt)
    has_steps = decision.status == DecisionStatus.ACCEPTED and planted is None
    steps = _steps(screen, unclaimed, now=now) if has_steps else []
    deliveries = deliveries_of_decision(decision, screen.continuation)
    permit, execution = _permit_state(screen, now=now), _execution(screen)
    progress = [step.detail for step in steps] + [f"{row.status} {row.attempts}" for row in deliveries]
    progress += [decision.status, permit, execution, str(screen.halt.pk if screen.halt is not None else "")]
    is_unfinished = any(step.state == "to come" for step in steps) or any(row.is_open for row in deliveries)
    is_unfinished = is_unfinished or permit == "good"
    return {
        "section": "inbox",
        "now": now,
        "deliveries": deliveries,
        "unclaimed": unclaimed,
        "returned_by": "" if unclaimed is None else describe_unread(unclaimed.handed_back_by),
        "progress_tag": f"{may_undo}.{screen.resume}.{digest(progress)[4:20]}",
        "is_live": may_undo or is_unfinished or screen.resume == "leased",
        "screen": screen,
        "planted": planted,
        "pace": find_fast(reader, decision),
        "may_see_outcome": planted is not None and may_see_outcome(reader, planted),
        "caught": planted is not None and planted.outcome == PlantedOutcome.CAUGHT,
        "halt": screen.halt if is_unfinished else None,
        "permit_state": permit,
        "execution": execution,
        "decision": decision,
        "interrupt": interrupt,
        "plain": plain,
        "call": call,
        "was_allowed": allowed is not None,
        "changes": _changes_of_edit(decision),
        "attached_files": attachments_of(decision),
        "overtaken_by": overtaking_facts(decision),
        "next_round": None if decision.status == DecisionStatus.ACCEPTED else next_round(decision, reader=reader),
        "done": code_labels.done_label(decision, interrupt.kind),
        "you_done": code_labels.you_done_label(decision.verdict),
        "status_label": status_label,
        "status_details": ", ".join(_status_details(screen, status_label)),
        "status_tone": status_tone,
        "is_counted": decision.status == DecisionStatus.COUNTED,
        "tally": screen.tally,
        "is_accepted": decision.status == DecisionStatus.ACCEPTED,
        "is_approving": decision.verdict in APPROVING,
        "is_readers": decision.by_id == reader.pk,
        "may_undo": may_undo,
        "undo_until": decision.created_at + interrupt.policy.undo,
        "who": decided_by_label(decision),
        "steps": steps,
        "holds": [(code_labels.hold_label(hold.kind), hold) for hold in screen.holds],
        "next_request_heading": None if following is None else request_heading(following, labels)[1],
        "next_request": following,
    }


def _status_details(screen: ReceiptPage, status_label: str) -> Iterator[str]:
    decision, tally = screen.decision, screen.tally
    yield status_label
    if tally.needed > 1 and decision.status == DecisionStatus.ACCEPTED:
        yield _("one of {counted} votes").format(counted=tally.counted)
    if decision.closes:
        yield _("closes round {round}").format(round=decision.round)


def _changes_of_edit(decision: Decision) -> LimitedChanges | None:
    """Return the changes of an edit against the proposal that the reviewer saw."""
    if decision.verdict != Verdict.EDIT or decision.arguments is None:
        return None
    changes = changes_between(arguments_shown_at(decision.interrupt, decision.state_version), decision.arguments)
    return limit_changes([change for change in changes if not change.is_same])


def _can_be_undone(screen: ReceiptPage, *, reader: AbstractUser, now: datetime) -> bool:
    """Return whether to offer undo. ``reviewer_actions`` checks again when the button is pressed."""
    decision, interrupt = screen.decision, screen.interrupt
    if decision.by_id == reader.pk and decision.status == DecisionStatus.COUNTED:
        return interrupt.status == InterruptStatus.WAITING and now < interrupt.deadline
    until = reviewer_actions.get_undo_deadline(decision)
    return decision.by_id == reader.pk and until is not None and now < until


def _unclaimed(screen: ReceiptPage, *, now: datetime) -> UnclaimedRun | None:
    """Return the unclaimed continuation of this decision, if it has been ready for longer than it should be."""
    if screen.continuation is None or screen.resume != ContinuationStatus.READY:
        return None
    found = find_unclaimed([screen.run], now=now).get(screen.run.pk)
    return found if found is not None and found.is_told else None


def _steps(screen: ReceiptPage, unclaimed: UnclaimedRun | None, *, now: datetime) -> list[Step]:
    """Return the steps after an accepted decision and which of them the run has reached."""
    decided = Step(label=_("Decided"), at=screen.decision.created_at, state="done")
    to_come = [Step(label=_(label)) for label in _STEP_LABELS]
    continuation = screen.continuation
    if continuation is None:
        return [decided, Step(label=_("Waiting for the other requests of the run"), state="now"), *to_come]
    if screen.resume == "void":
        return [
            decided,
            Step(
                label=_("Ended"),
                detail=void_reason_text(continuation.void_reason) or _("the run does not continue from here"),
                state="now",
            ),
        ]
    is_on_hold = screen.resume == "held"
    reached = ["checking", "ready", "leased", "acknowledged"].index(continuation.status)
    details = [_("facts and open effects"), _("for any free worker"), _("by a worker"), _("next boundary reached")]
    times = [None, None, continuation.leased_at, continuation.acknowledged_at]
    steps = [decided]
    for at, label in enumerate(_STEP_LABELS):
        is_now = at == reached and continuation.status != "acknowledged"
        state = "now" if is_now else "done" if at < reached or continuation.status == "acknowledged" else "to come"
        detail = _("on hold, see below") if is_now and is_on_hold else details[at] if state != "to come" else ""
        if label == "Ready" and state != "done" and not is_on_hold and now < continuation.not_before:
            detail = _("after the undo window")
        elif is_now and label == "Ready" and unclaimed is not None:
            detail = _("no worker has claimed it for {duration}").format(duration=duration_label(unclaimed.waited))
        elif is_now and label == "Ready" and not is_on_hold and screen.halt is not None:
            detail = _("for any free worker, once the halt of its agent is lifted")
        steps.append(Step(label=_(label), detail=detail, at=times[at], state=state))
    return steps


def _permit_state(screen: ReceiptPage, *, now: datetime) -> str:
    """Return "good", "spent", "void", "expired", or "" without a permit. A spent permit stays spent when its run ends."""
    permit = screen.permit
    if permit is None:
        return ""
    if screen.spent_on is not None:
        return "spent"
    if permit.void_at is not None or screen.decision.status != DecisionStatus.ACCEPTED:
        return "void"
    return "good" if now < permit.valid_until else "expired"


def _execution(screen: ReceiptPage) -> str:
    """Return the status of the effect that was begun with the permit, as the start of a sentence; empty before it begins."""
    return "" if screen.spent_on is None else _(_EXECUTION.get(screen.spent_on.status, "The effect has begun"))


# --- webhook deliveries -----------------------------------------------------------------------------------------------

# Only the host of an endpoint's URL is shown, never the body of its response.

MAX_EVENTS = 40
_SUBJECTS = {
    "interrupt.answered": gettext_noop("decision made"),
    "continuation.ready": gettext_noop("run can continue"),
    "continuation.claimed": gettext_noop("worker continued the run"),
}


@dataclass(frozen=True, kw_only=True)
class DeliveryRow:
    """One delivery. ``at``: time of the delivery, or of the next attempt."""

    subject: str
    host: str
    status: str
    detail: str
    error: str
    at: datetime | None
    tone: str
    icon: str
    attempts: int
    is_open: bool


def deliveries_of_decision(decision: Decision, continuation: Continuation | None) -> list[DeliveryRow]:
    """Return the deliveries about a decision and the continuation after it, oldest first."""
    run = decision.interrupt.run
    later = Event.objects.filter(run=run, at__gte=decision.created_at, type__in=_SUBJECTS).order_by("seq")[:MAX_EVENTS]
    ids = {decision.public_id, "" if continuation is None else continuation.public_id} - {""}
    events = [event.pk for event in later if {event.refs.get("decision"), event.refs.get("continuation")} & ids]
    if not events:
        return []
    deliveries = Delivery.objects.filter(endpoint__agent=run.agent_id, event__in=events, type__in=_SUBJECTS)
    return [_row(delivery) for delivery in deliveries.select_related("endpoint").order_by("id")[:MAX_EVENTS]]


def _row(delivery: Delivery) -> DeliveryRow:
    status, detail, at, tone, icon = _status(delivery)
    return DeliveryRow(
        subject=_(_SUBJECTS[delivery.type]),
        host=urlsplit(delivery.endpoint.url).hostname or _("an address"),
        status=status,
        detail=detail,
        error=delivery.trouble if delivery.status in (DeliveryStatus.DUE, DeliveryStatus.DEAD) else "",
        at=at,
        tone=tone,
        icon=icon,
        attempts=delivery.tries,
        is_open=delivery.status == DeliveryStatus.DUE,
    )


def _status(delivery: Delivery) -> tuple[str, str, datetime | None, str, str]:
    attempts = ngettext("{number} attempt", "{number} attempts", delivery.tries).format(number=delivery.tries)
    if delivery.status == DeliveryStatus.DELIVERED:
        return _("delivered"), "", delivery.ended_at, "good", "check"
    if delivery.status == DeliveryStatus.DEAD:
        return (
            _("failed"),
            _("{attempts}; an operator can send it again").format(attempts=attempts),
            delivery.ended_at,
            "bad",
            "cross",
        )
    if delivery.status == DeliveryStatus.VOID:
        return _("not sent"), _("no longer needed"), delivery.ended_at, "", "undo"
    if delivery.tries:
        return _("retrying"), _("{attempts}; next attempt").format(attempts=attempts), delivery.next_at, "warn", "alert"
    return _("pending"), "", None, "act", "clock"
