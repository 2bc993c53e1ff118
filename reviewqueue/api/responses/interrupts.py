"""Responses about interrupts: requests to people, their answers, votes and comments."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.contrib.auth.models import AbstractUser

from ledger.errors import Refusal
from ledger.exact_json import ABSENT
from reviewqueue import permissions
from reviewqueue.api.problems import ProblemResponse
from reviewqueue.api.response_serializers import (
    BOOLEAN,
    DATETIME,
    DIGEST,
    EXACT,
    INTEGER,
    OBJECT,
    TEXT,
    ResponseSerializer,
    as_stored,
    choice,
    include,
    list_of,
    map_of,
    member,
    nullable,
    public_id,
)
from reviewqueue.api.responses.runs import (
    CONTINUATION_ID,
    NEXT_PAGE,
    RUN_ID,
    RUN_STATUS,
    CheckpointMarkResponse,
    FactResponse,
    RunStatusResponse,
)
from reviewqueue.resume_gateway import Receipt, closed_refusal
from runs.attachments import attachments_of
from runs.decisions import Tally, decided_by_label, second_vote_refusal, tally_votes
from runs.interrupts import remaining_escalation_levels
from runs.models import Continuation, Decision, Fact, Interrupt, Permit, Run, Signal
from runs.planted_requests import find_disclosed
from runs.reviewer_claims import claimed_refusal
from runs.revisions import EffectiveAnswer, effective_answer
from runs.standing_rules import rule_id_of
from runs.states import Cause, DecisionStatus, InterruptStatus, Kind, OnExpiry, PlantedOutcome, Risk, Verdict

INTERRUPT_ID, DECISION_ID, PERMIT_ID = public_id("int"), public_id("dec"), public_id("per")
INTERRUPT_STATUS = choice(InterruptStatus.values)
VERDICT = choice(Verdict.values)
#: The steps from an answer to the run that continues with it.
RESUME = nullable(choice(["checking", "ready", "held", "leased", "acknowledged", "void"]))

_RESUME = (
    "How far the answer has come: checking, ready, held (by a pause or a hold), leased, acknowledged or void; null while "
    "other interrupts of the run are open."
)
_STATE_VERSION = "Version of what reviewers read; every change to it raises the version."
_DIGEST = "Digest of what reviewers read (rq1:, SHA-256 over canonical JSON)."
_DECIDED_BY = "Who decided, by e-mail address, or system:expiry."
_INPUT = "The answer. Null, false, 0, an empty text and an empty list are answers."


def interrupt_url(interrupt: Interrupt) -> str:
    """Return the URL of an interrupt's page."""
    return f"{settings.BASE_URL}/interrupts/{interrupt.public_id}"


class InterruptMarkResponse(ResponseSerializer):
    """An interrupt as its agent gets it back (``Interrupt``)."""

    id = member(INTERRUPT_ID, "Id of the interrupt.", "public_id")
    key = member(TEXT, "Your key of the interrupt.")
    status = member(INTERRUPT_STATUS, "Status of the interrupt.")
    state_version = member(INTEGER, _STATE_VERSION)
    deadline = member(DATETIME, "Deadline. An answer at exactly this time is late.")
    url = member(TEXT, "URL of the interrupt's page.", interrupt_url)


class AmendedInterruptResponse(InterruptMarkResponse):
    """An interrupt after an amendment (``Interrupt``)."""

    content_digest = member(DIGEST, _DIGEST)


@dataclass(frozen=True, kw_only=True)
class WithdrawnInterrupt:
    """An interrupt that its agent withdrew, and the continuation that this made ready."""

    interrupt: Interrupt
    continuation: Continuation | None


class WithdrawnInterruptResponse(ResponseSerializer):
    """An interrupt after its withdrawal (``WithdrawnInterrupt``)."""

    _interrupt = include(InterruptMarkResponse, "interrupt")
    continuation = member(
        nullable(CONTINUATION_ID),
        "Id of the continuation that the withdrawal made ready; null while other interrupts of the run are open.",
        lambda withdrawn: None if withdrawn.continuation is None else withdrawn.continuation.public_id,
    )


class AskResponse(ResponseSerializer):
    """The run and the interrupt of an ask (``AskedInterrupt``)."""

    interrupt = member(InterruptMarkResponse, "The interrupt.")
    run = member(RunStatusResponse, "The run.")
    url = member(TEXT, "URL of the interrupt's page.", lambda asked: interrupt_url(asked.interrupt))


@dataclass(frozen=True, kw_only=True)
class AskedInterrupt:
    """A run and its only interrupt."""

    interrupt: Interrupt
    run: Run


class RunTitleResponse(ResponseSerializer):
    """The run of an interrupt (``Run``)."""

    id = member(RUN_ID, "Id of the run.", "public_id")
    title = member(TEXT, "One line that people read.")


def _answered_at(interrupt: Interrupt) -> datetime | None:
    return interrupt.closed_at if interrupt.status == InterruptStatus.ANSWERED else None


class InterruptSummaryResponse(InterruptMarkResponse):
    """An interrupt in a list (``Interrupt``)."""

    kind = member(choice(Kind.values), "What is asked for.")
    reason = member(TEXT, "Reason code. It selects the policy.")
    round = member(INTEGER, "Number of times it was asked; each renewed review adds one.")
    queue = member(
        nullable(TEXT),
        "Slug of the queue whose people decide; null without one.",
        lambda interrupt: None if interrupt.queue is None else interrupt.queue.slug,
    )
    correlation = member(
        nullable(TEXT),
        "Correlation id by which a signal answers it; null if it waits for no signal.",
        lambda interrupt: interrupt.correlation or None,
    )
    risk = member(choice(Risk.values), "Risk: high, medium or low.")
    priority = member(INTEGER, "Priority, 0 to 100; higher is more urgent.")
    title = member(TEXT, "One line that reviewers read.")
    run = member(RunTitleResponse, "The run.")
    created_at = member(DATETIME, "Time at which it was first asked.")
    answered_at = member(
        nullable(DATETIME), "Time of the answer by a person or by default; null while there is none.", _answered_at
    )


class InterruptListResponse(ResponseSerializer):
    """A page of interrupts (``ListPage``)."""

    interrupts = member(list_of(InterruptSummaryResponse), "Interrupts, newest first.", "rows")
    next = member(nullable(TEXT), NEXT_PAGE)


# --- answers and decisions ------------------------------------------------------------------------------------------------


class ChangedPlaceResponse(ResponseSerializer):
    """One place of an edited call (``Difference``). Without a value there, the member is left out: null is a value."""

    path = member(TEXT, "JSON Pointer into the approved arguments; into yours for a place that was removed.", "pointer")
    before = member(EXACT, "Value that you proposed; left out if you had none.", "old", optional=True)
    after = member(EXACT, "Value that was approved; left out if the place was removed.", "new", optional=True)


class SignalMarkResponse(ResponseSerializer):
    """The signal that answered an interrupt (``Signal``)."""

    id = member(TEXT, "The sender's id of the event.", "sender_id")
    type = member(TEXT, "Type of the event, as the sender names it.")


def permit_of(decision: Decision) -> str | None:
    """Return the id of the decision's permit; ``None`` without one, and for a void one."""
    permit: Permit | None = getattr(decision, "permit", None)
    return None if permit is None or permit.void_at is not None else permit.public_id


@dataclass(frozen=True, kw_only=True)
class GivenAnswer:
    """A decision, and what it means for the agent: where one of several voters edited the call, it is an edit."""

    decision: Decision
    approved: EffectiveAnswer


def answer_of(decision: Decision) -> GivenAnswer:
    """Return the answer that a decision is for the agent."""
    return GivenAnswer(decision=decision, approved=effective_answer(decision))


class AttachmentResponse(ResponseSerializer):
    """A file that a reviewer attached (``Attachment``)."""

    digest = member(TEXT, "Digest of the bytes, `sha256:...`: the answer names the file by it.")
    name = member(TEXT, "Name of the file, without characters that could disguise it.")
    media_type = member(TEXT, "Type of the content.")
    size = member(INTEGER, "Size in bytes.")
    url = member(
        TEXT,
        "Path of the verified bytes.",
        lambda file: f"/api/v1/interrupts/{file.interrupt.public_id}/attachments/{file.digest}",
    )


class AnswerResponse(ResponseSerializer):
    """An answer by a person, a signal or the deadline (``GivenAnswer``)."""

    verdict = member(
        nullable(VERDICT),
        "The verdict; null if the deadline passed and the run continues without an answer.",
        lambda given: given.approved.verdict or None,
    )
    input = member(EXACT, _INPUT, "decision.input")
    arguments = member(
        nullable(OBJECT),
        "With `edit`: all arguments of the call, as approved; otherwise null.",
        "approved.arguments",
    )
    changed = member(
        list_of(ChangedPlaceResponse),
        "With `edit`: the places where the approved arguments differ from yours. More than 100 places are given as one.",
        "approved.changed",
    )
    message = member(
        nullable(TEXT), "Message to the agent; null without one.", lambda given: given.decision.message or None
    )
    decided_by = member(TEXT, _DECIDED_BY, lambda given: decided_by_label(given.decision))
    decided_at = member(DATETIME, "Time of the decision.", "decision.created_at")
    decision = member(DECISION_ID, "Id of the decision.", "decision.public_id")
    standing_rule = member(
        TEXT,
        "Id of the standing rule by which that lead decided; left out if a person decided this request.",
        lambda given: rule_id_of(given.decision) or ABSENT,
        optional=True,
    )
    cause = member(choice(Cause.values), "Where the answer comes from: person, system:expiry ...", "decision.cause")
    permit = member(
        nullable(PERMIT_ID),
        "Id of the permit that an approval left; null without one.",
        lambda given: permit_of(given.decision),
    )
    attachments = member(
        list_of(AttachmentResponse),
        "The files that `input` names by their digests; left out if it names none.",
        lambda given: attachments_of(given.decision) or ABSENT,
        optional=True,
    )
    signal = member(
        SignalMarkResponse,
        "The signal that answered; left out if none did.",
        lambda given: given.decision.signal or ABSENT,
        optional=True,
    )


def answers_by_key(decisions: Iterable[Decision]) -> dict[str, GivenAnswer]:
    """Return the answers by their interrupts' keys."""
    return {decision.interrupt.key: answer_of(decision) for decision in decisions}


class SuspendResponse(ResponseSerializer):
    """What a suspend led to (``suspend.Suspended``). It has answers only while the caller holds the lease."""

    run = member(RunStatusResponse, "The run.")
    checkpoint = member(CheckpointMarkResponse, "The checkpoint that was committed.")
    interrupts = member(list_of(InterruptMarkResponse), "The interrupts.")
    answers = member(
        map_of(AnswerResponse),
        "Answers, by the interrupt's key.",
        lambda suspended: answers_by_key(suspended.answers),
    )
    cancel_effects = member(
        list_of(TEXT), "Keys of effects that the worker must cancel outside now. It then reports their outcome."
    )


class ApprovalsResponse(ResponseSerializer):
    """Progress towards the quorum (``Tally``)."""

    needed = member(INTEGER, "Number of people who must approve.")
    counted = member(INTEGER, "Number of people who have approved.")


class DecidedInterruptResponse(ResponseSerializer):
    """The interrupt of a decision (``Interrupt``)."""

    id = member(INTERRUPT_ID, "Id of the interrupt.", "public_id")
    status = member(INTERRUPT_STATUS, "Status of the interrupt.")


class DisclosureResponse(ResponseSerializer):
    """What a planted request was, for the person who has decided it (``PlantedRequest``)."""

    fault = member(TEXT, "What is wrong with the request.")
    expected = member(list_of(VERDICT), "Verdicts that catch the fault.")
    caught = member(BOOLEAN, "Whether the decision caught it.", lambda row: row.outcome == PlantedOutcome.CAUGHT)


class ReceiptResponse(ResponseSerializer):
    """The receipt of an accepted decision (``resume_gateway.Receipt``)."""

    decision = member(DECISION_ID, "Id of the decision.", "decision.public_id")
    status = member(choice(DecisionStatus.values), "Status of the decision.", "decision.status")
    interrupt = member(DecidedInterruptResponse, "The interrupt.")
    verdict = member(VERDICT, "The verdict.", "decision.verdict")
    state_version = member(INTEGER, "Version of the interrupt that was decided.", "decision.state_version")
    decided_by = member(TEXT, _DECIDED_BY, lambda receipt: decided_by_label(receipt.decision))
    decided_at = member(DATETIME, "Time of the decision.", "decision.created_at")
    digest = member(DIGEST, "Digest of the decision (rq1:, SHA-256 over canonical JSON).", "decision.digest")
    permit = member(
        nullable(PERMIT_ID),
        "Id of the permit that the approval left; null without one.",
        lambda receipt: None if receipt.permit is None else receipt.permit.public_id,
    )
    resume = member(RESUME, _RESUME)
    approvals = member(
        ApprovalsResponse,
        "Progress towards the quorum; left out if one person decides.",
        lambda receipt: tally_votes(receipt.interrupt) if receipt.interrupt.quorum > 1 else ABSENT,
        optional=True,
    )
    planted = member(
        DisclosureResponse,
        "A lead planted the request, so nothing runs; left out for a request of an agent.",
        lambda receipt: find_disclosed(receipt.interrupt) or ABSENT,
        optional=True,
    )
    replayed = member(
        BOOLEAN,
        "True: you sent this decision before, and this is its first receipt.",
        lambda receipt: True if receipt.replayed else ABSENT,
        optional=True,
    )


@dataclass(frozen=True, kw_only=True)
class DecisionResult:
    """The result of one decision of several: a receipt or a refusal."""

    interrupt: str
    status: int
    receipt: Receipt | Any = ABSENT
    problem: dict[str, Any] | Any = ABSENT


class BulkResultResponse(ResponseSerializer):
    """The result of one decision of several (``DecisionResult``)."""

    interrupt = member(TEXT, "Id of the interrupt.")
    status = member(INTEGER, "HTTP status that this decision alone would have had.")
    receipt = member(ReceiptResponse, "Receipt; left out if the decision was refused.", optional=True)
    problem = member(as_stored(ProblemResponse), "Why the decision was refused; left out otherwise.", optional=True)


class BulkDecisionsResponse(ResponseSerializer):
    """The results of several decisions (a list of ``DecisionResult``)."""

    decisions = member(list_of(BulkResultResponse), "One result for each decision, in their order.", "*")


@dataclass(frozen=True, kw_only=True)
class BatchResult:
    """The result of one item of a batch: what the item alone would have returned, or a problem."""

    status: int
    result: Any = ABSENT
    problem: dict[str, Any] | Any = ABSENT


class AskResultResponse(ResponseSerializer):
    """The result of one ask of a batch (``BatchResult``)."""

    status = member(INTEGER, "HTTP status that this ask alone would have had.")
    ask = member(AskResponse, "The run and the interrupt; left out if the ask was refused.", "result", optional=True)
    problem = member(as_stored(ProblemResponse), "Why the ask was refused; left out otherwise.", optional=True)


class AskBatchResponse(ResponseSerializer):
    """The results of several asks (a list of ``BatchResult``)."""

    asks = member(list_of(AskResultResponse), "One result for each ask, in their order.", "*")


class DecisionResultResponse(ResponseSerializer):
    """The result of one decision of a batch (``BatchResult``)."""

    status = member(INTEGER, "HTTP status that this decision alone would have had.")
    receipt = member(ReceiptResponse, "Receipt; left out if the decision was refused.", "result", optional=True)
    problem = member(as_stored(ProblemResponse), "Why the decision was refused; left out otherwise.", optional=True)


class DecisionBatchResponse(ResponseSerializer):
    """The results of several decisions (a list of ``BatchResult``)."""

    decisions = member(list_of(DecisionResultResponse), "One result for each decision, in their order.", "*")


# --- one interrupt --------------------------------------------------------------------------------------------------------


class ProposalResponse(ResponseSerializer):
    """The exact call that the agent proposes (a stored object)."""

    name = member(TEXT, "Name of the call.")
    arguments = member(OBJECT, "Arguments of the call, by name.")
    schema = member(EXACT, "JSON Schema of the arguments. Edits must satisfy it (docs/schemas.md).", optional=True)


class EvidenceResponse(ResponseSerializer):
    """A finding of the agent that reviewers see (a stored object)."""

    label = member(TEXT, "Label of the finding.")
    value = member(EXACT, "The finding, exactly as it was sent.")
    source = member(TEXT, "Where the agent found it.", optional=True)


class OnExpiryResponse(ResponseSerializer):
    """What happens at the deadline (a stored object)."""

    do = member(
        choice(OnExpiry.values),
        "`cancel` (the run ends as expired), `fail`, `resume` (without an answer), `escalate`, or `default` (with the "
        "answer given here).",
    )
    verdict = member(VERDICT, "With `default`: the verdict.", optional=True)
    input = member(EXACT, f"With `default`: {_INPUT[0].lower()}{_INPUT[1:]}", optional=True)
    arguments = member(EXACT, "With `default`: the arguments of the call, by name.", optional=True)
    to = member(TEXT, "With `escalate`: slug of the next queue.", optional=True)


def at_expiry(interrupt: Interrupt) -> dict[str, Any]:
    """Return what happens at the deadline, with the next queue where it is escalated."""
    stored: dict[str, Any] = dict(interrupt.on_expiry)
    if stored["do"] != OnExpiry.ESCALATE:
        return stored
    left = remaining_escalation_levels(interrupt)
    return stored | {"to": left[0].queue} if left else {"do": interrupt.policy.then}


class PolicyMarkResponse(ResponseSerializer):
    """The policy that an interrupt was opened under (``Policy``)."""

    reason = member(TEXT, "Reason code that selects the policy.")
    version = member(INTEGER, "Version of the policy. An open interrupt keeps its version.")
    agent = member(
        nullable(TEXT),
        "Slug of the agent whose own policy it is; null for the policy of all agents.",
        lambda policy: None if policy.agent is None else policy.agent.slug,
    )


class ParentRunResponse(ResponseSerializer):
    """A parent run (``Run``)."""

    id = member(RUN_ID, "Id of the run.", "public_id")
    title = member(TEXT, "One line that people read.")
    agent = member(TEXT, "Slug of the agent.", "agent.slug")
    status = member(RUN_STATUS, "Status of the run.")


class DuplicateResponse(ResponseSerializer):
    """Another open interrupt for the same call (``Interrupt``)."""

    id = member(INTERRUPT_ID, "Id of the interrupt.", "public_id")
    run = member(RUN_ID, "Id of the run.", "run.public_id")
    url = member(TEXT, "URL of the interrupt's page.", interrupt_url)


class VoteResponse(ResponseSerializer):
    """A vote towards the quorum (``Decision``)."""

    decision = member(DECISION_ID, "Id of the decision.", "public_id")
    decided_by = member(TEXT, "Who voted, by e-mail address.", decided_by_label)
    decided_at = member(DATETIME, "Time of the vote.", "created_at")
    verdict = member(VERDICT, "The verdict.")
    message = member(nullable(TEXT), "Message to the agent; null without one.", lambda vote: vote.message or None)


class WhyNotResponse(ResponseSerializer):
    """Why a person cannot decide (``Refusal``)."""

    code = member(TEXT, "Refusal code, for programs.")
    detail = member(TEXT, "The reason in one sentence, for people.")


@dataclass(frozen=True, kw_only=True)
class PersonView:
    """What one person sees of an interrupt besides: why they cannot decide, their vote, and the decision."""

    refusal: Refusal | None
    winner: Decision | None
    has_voted: bool


def view_of_person(
    person: AbstractUser, interrupt: Interrupt, *, winner: Decision | None, so_far: Tally, now: datetime
) -> PersonView:
    """Return what this person sees of the interrupt."""
    refusal = permissions.why_not_decide(person, interrupt)
    if refusal is None and interrupt.status != InterruptStatus.WAITING:
        refusal = closed_refusal(interrupt, winner)
    own = next((given for given in so_far.votes if given.by_id == person.pk), None)
    if refusal is None and own is not None:
        refusal = second_vote_refusal(interrupt, own)
    if refusal is None and permissions.is_claimed_by_other_reviewer(interrupt, person, now=now):
        refusal = claimed_refusal(interrupt)
    return PersonView(refusal=refusal, winner=winner, has_voted=own is not None)


@dataclass(frozen=True, kw_only=True)
class InterruptDetail:
    """An interrupt with what belongs to it now. ``person`` is ``None`` for an agent's key."""

    interrupt: Interrupt
    facts: Iterable[Fact]
    assignees: list[str]
    so_far: Tally
    parents: Iterable[Run]
    duplicates: Iterable[Interrupt]
    now: datetime
    resume: str | None
    continuation: Continuation | None
    person: PersonView | None

    @property
    def claimed_by(self) -> str | None:
        """Return the reviewer whose claim has not expired."""
        interrupt = self.interrupt
        if interrupt.claimed_until is None or interrupt.claimed_until <= self.now or interrupt.claimed_by is None:
            return None
        return interrupt.claimed_by.get_username()


def _seen(detail: InterruptDetail, read: Any) -> Any:
    """Return what a person sees, or ``ABSENT`` for an agent's key."""
    return ABSENT if detail.person is None else read(detail.person)


class InterruptResponse(ResponseSerializer):
    """An interrupt (``InterruptDetail``). Some members are for an agent's key, some for a person."""

    _interrupt = include(InterruptSummaryResponse, "interrupt")
    content_digest = member(DIGEST, _DIGEST, "interrupt.content_digest")
    assignees = member(list_of(TEXT), "The only people who can decide, by e-mail address; the whole queue when empty.")
    message = member(TEXT, "The agent's message to reviewers, in markdown.", "interrupt.message")
    proposal = member(
        nullable(as_stored(ProposalResponse)), "The exact call to approve; null without one.", "interrupt.proposal"
    )
    input_schema = member(
        EXACT,
        "JSON Schema of the answer (docs/schemas.md).",
        lambda detail: {} if detail.interrupt.schema is None else detail.interrupt.schema.body,
    )
    verdicts = member(
        list_of(VERDICT),
        "Verdicts that reviewers can choose: approve, edit, reject, respond; answer, decline.",
        "interrupt.verdicts",
    )
    evidence = member(
        list_of(as_stored(EvidenceResponse)), "Findings of the agent that reviewers see.", "interrupt.evidence"
    )
    facts = member(list_of(FactResponse), "Facts that the rest of the run relies on.")
    on_expiry = member(
        as_stored(OnExpiryResponse), "What happens at the deadline.", lambda detail: at_expiry(detail.interrupt)
    )
    approvals = member(ApprovalsResponse, "Progress towards the quorum.", "so_far")
    policy = member(PolicyMarkResponse, "Policy that the interrupt was opened under.", "interrupt.policy")
    parents = member(list_of(ParentRunResponse), "Parent runs of the interrupt's run, the topmost first.")
    duplicates = member(
        list_of(DuplicateResponse), "Open interrupts for the same call, of the same agent in related runs."
    )
    claimed_by = member(nullable(TEXT), "Reviewer who has claimed it, by e-mail address; null if unclaimed.")
    claimed_until = member(
        nullable(DATETIME),
        "Time at which the claim expires; null if unclaimed.",
        lambda detail: detail.interrupt.claimed_until if detail.claimed_by else None,
    )
    external_id = member(
        nullable(TEXT),
        "Your own id of the interrupt, such as a tool call's; null without one.",
        lambda detail: detail.interrupt.external_id or None,
    )
    metadata = member(OBJECT, "Your own small object.", "interrupt.metadata")
    may_decide = member(
        BOOLEAN,
        "For a person: whether you can decide it now.",
        lambda detail: _seen(detail, lambda view: view.refusal is None),
        optional=True,
    )
    why_not = member(
        nullable(WhyNotResponse),
        "For a person: why you cannot decide it; null if you can.",
        lambda detail: _seen(detail, lambda view: view.refusal),
        optional=True,
    )
    decision = member(
        nullable(AnswerResponse),
        "For a person: the decision; null while there is none.",
        lambda detail: _seen(detail, lambda view: None if view.winner is None else answer_of(view.winner)),
        optional=True,
    )
    has_voted = member(
        BOOLEAN,
        "For a person: whether your own vote counts towards the quorum.",
        lambda detail: _seen(detail, lambda view: view.has_voted),
        optional=True,
    )
    votes = member(
        list_of(VoteResponse),
        "For a person: votes that count, oldest first.",
        lambda detail: _seen(detail, lambda view: detail.so_far.votes),
        optional=True,
    )
    resume = member(RESUME, _RESUME)
    continuation = member(
        nullable(CONTINUATION_ID),
        "For an agent's key: id of the continuation that brings the answer; null while there is none.",
        lambda detail: _continuation_of(detail),
        optional=True,
    )


def _continuation_of(detail: InterruptDetail) -> Any:
    if detail.person is not None:
        return ABSENT
    return None if detail.continuation is None else detail.continuation.public_id


# --- reviewers' actions ---------------------------------------------------------------------------------------------------


class ReviewerClaimResponse(ResponseSerializer):
    """An interrupt after a claim or a release (``Interrupt``)."""

    id = member(INTERRUPT_ID, "Id of the interrupt.", "public_id")
    status = member(INTERRUPT_STATUS, "Status of the interrupt.")
    state_version = member(INTEGER, _STATE_VERSION)
    claimed_by = member(
        nullable(TEXT),
        "Reviewer who has claimed it, by e-mail address; null if unclaimed.",
        lambda interrupt: None if interrupt.claimed_by_id is None else interrupt.claimed_by.get_username(),
    )
    claimed_until = member(nullable(DATETIME), "Time at which the claim expires; null if unclaimed.")


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """An interrupt and the people it was assigned to."""

    interrupt: Interrupt
    assignees: list[str]


class AssignmentResponse(ResponseSerializer):
    """An interrupt after an assignment (``Assignment``)."""

    _interrupt = include(ReviewerClaimResponse, "interrupt")
    assignees = member(list_of(TEXT), "The only people who can decide, by e-mail address; the whole queue when empty.")


class CommentResponse(ResponseSerializer):
    """A comment (``Comment``)."""

    by = member(TEXT, "Author, by e-mail address.", lambda comment: comment.person.get_username())
    text = member(TEXT, "Text of the comment.")
    at = member(DATETIME, "Time of the comment.", "created_at")


class CommentListResponse(ResponseSerializer):
    """A page of comments (``ListPage``)."""

    comments = member(list_of(CommentResponse), "Comments, newest first.", "rows")
    next = member(nullable(TEXT), NEXT_PAGE)


# --- signals --------------------------------------------------------------------------------------------------------------


SIGNAL_STATUSES = ("kept", "used", "dead")


@dataclass(frozen=True, kw_only=True)
class SignalState:
    """A signal and its status now."""

    signal: Signal
    status: str


class SignalResponse(ResponseSerializer):
    """A signal (``SignalState``)."""

    id = member(TEXT, "The sender's id of the event.", "signal.sender_id")
    correlation = member(TEXT, "Correlation id of the interrupt that the signal answers.", "signal.correlation")
    type = member(TEXT, "Type of the event, as the sender names it.", "signal.type")
    status = member(
        choice(SIGNAL_STATUSES),
        "`kept` for a later interrupt; `used`: it answered one; `dead`: no interrupt accepted it in time.",
    )
    interrupt = member(
        nullable(INTERRUPT_ID),
        "Id of the interrupt that it answered; null without one.",
        lambda state: None if state.signal.used_by is None else state.signal.used_by.public_id,
    )
    received_at = member(DATETIME, "Time at which the signal was received.", "signal.received_at")
    keep_until = member(
        nullable(DATETIME),
        "Time until which it is kept for an interrupt; null if it is kept without an end.",
        "signal.keep_until",
    )


class SignalListResponse(ResponseSerializer):
    """A page of signals (``ListPage``)."""

    signals = member(list_of(SignalResponse), "Signals, newest first.", "rows")
    next = member(nullable(TEXT), NEXT_PAGE)
