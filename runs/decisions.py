"""Decisions: every submitted answer, accepted or refused, the votes of a quorum, and the answers that a claim returns.

Writes ``Decision.status``. Validates the content of an answer and records it; who has permission to answer is checked
by the gateway.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, cast

from django.contrib.auth.models import AbstractBaseUser, User
from django.db.models import Case, Min, Q, QuerySet, When
from django.db.models.functions import Coalesce, Length

from ledger import effect_queries, prepared_queries, row_digests
from ledger.digests import digest
from ledger.errors import PayloadInvalid, Problem, Refusal
from ledger.exact_json import ABSENT
from ledger.prepared_queries import PreparedUpdate, prepared
from ledger.public_ids import new_id
from ledger.row_digests import STATE
from ledger.transactions import assert_in_transaction
from ledger.write_batch import insert_later, update_later
from runs import schemas
from runs.errors import AlreadyDecided, AlreadyVoted, Expired, InputInvalid, InterruptCancelled, Superseded, Withdrawn
from runs.models import Decision, Interrupt, Permit, Run, Signal
from runs.states import (
    APPROVING,
    DECISION_TRANSITIONS,
    VALID_DECISIONS,
    Cause,
    DecisionStatus,
    InterruptStatus,
    Kind,
    Verdict,
)

MESSAGE_LIMIT = 20_000
#: The limits of what a claim lists: answers, and characters of their contents together. Those of its checkpoint, at most
#: two of each of its interrupts, are always listed.
MAX_ANSWERS_OF_CLAIM = 100
MAX_ANSWER_CHARACTERS_OF_CLAIM = 256 * 1024
#: How many characters a response has for an answer: an edit has the approved arguments, and what it changed in the proposed.
ANSWER_CHARACTERS = (
    Coalesce(Length("input"), 0)
    + Length("message")
    + Case(
        When(arguments__isnull=False, then=2 * Length("arguments") + Coalesce(Length("interrupt__proposal"), 0)),
        default=0,
    )
)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The content of an answer. ``ABSENT`` members were left out; ``None`` is JSON null."""

    verdict: str
    input: Any = ABSENT
    arguments: Any = ABSENT
    message: str = ""

    def digest(self) -> str:
        """Return the digest of all members that were sent."""
        content = {"verdict": self.verdict, "message": self.message}
        content |= {} if self.input is ABSENT else {"input": self.input}
        content |= {} if self.arguments is ABSENT else {"arguments": self.arguments}
        return digest(content)


def validate_answer(interrupt: Interrupt, answer: Answer) -> None:
    """Validate the content of an answer.

    Raises ``PayloadInvalid`` for members that do not belong to the verdict, ``InputInvalid`` for values outside the
    schema.
    """
    if answer.verdict not in interrupt.verdicts:
        raise PayloadInvalid.at("/verdict", f"must be one of: {', '.join(interrupt.verdicts)}")
    if len(answer.message) > MESSAGE_LIMIT:
        raise PayloadInvalid.at("/message", f"must have at most {MESSAGE_LIMIT} characters")
    if answer.verdict == Verdict.RESPOND and not answer.message.strip():
        raise InputInvalid("A response needs a message.", errors=[Problem("/message", "is missing")])
    if requires_reason(interrupt, answer.verdict) and not answer.message.strip():
        raise InputInvalid(
            "The policy requires a reason.",
            errors=[Problem("/message", f"is missing: {answer.verdict} needs a reason")],
        )
    _check_arguments(interrupt, answer)
    _check_input(interrupt, answer)


def requires_reason(interrupt: Interrupt, verdict: str) -> bool:
    """Return whether the policy requires a message with the verdict."""
    return verdict in {Verdict.REJECT, Verdict.DECLINE} and interrupt.policy.require_reason


def _check_arguments(interrupt: Interrupt, answer: Answer) -> None:
    if answer.verdict != Verdict.EDIT:
        if answer.arguments is not ABSENT:
            raise PayloadInvalid.at("/arguments", "are only for verdict edit")
        return
    if not isinstance(answer.arguments, dict):
        raise InputInvalid("An edit needs the changed arguments.", errors=[Problem("/arguments", "must be an object")])
    argument_schema = interrupt.proposal.get("schema", True)
    _refuse_misfit(schemas.validate(argument_schema, answer.arguments), "/arguments")


def _check_input(interrupt: Interrupt, answer: Answer) -> None:
    if answer.verdict == Verdict.ANSWER or (answer.verdict in APPROVING and interrupt.schema is not None):
        if answer.input is ABSENT:
            raise InputInvalid("The answer needs an input.", errors=[Problem("/input", "is missing")])
        _refuse_misfit(schemas.validate(answer_schema(interrupt), answer.input), "/input")
    elif answer.input is not ABSENT:
        raise PayloadInvalid.at("/input", f"is not allowed for verdict {answer.verdict}")


def _refuse_misfit(problems: list[Problem], at: str) -> None:
    if problems:
        raise InputInvalid(errors=[Problem(at + problem.pointer, problem.message) for problem in problems])


def answer_schema(interrupt: Interrupt) -> Any:
    """Return the JSON Schema of the interrupt's answers, by default ``true``."""
    return True if interrupt.schema is None else interrupt.schema.body


def approved_call(interrupt: Interrupt, answer: Answer) -> dict[str, Any] | None:
    """Return the exact call that the answer approves, if any."""
    if interrupt.kind != Kind.APPROVAL or answer.verdict not in APPROVING:
        return None
    edited = answer.arguments is not ABSENT
    return {
        "name": interrupt.proposal["name"],
        "arguments": answer.arguments if edited else interrupt.proposal["arguments"],
    }


def record_decision(
    interrupt: Interrupt,
    answer: Answer,
    *,
    by: AbstractBaseUser | None,
    status: DecisionStatus,
    now: datetime,
    cause: str = Cause.PERSON,
    code: str = "",
    door: str = "",
    request_key: str = "",
    state_version: int | None = None,
    signal: Signal | None = None,
    pk: int | None = None,
) -> Decision:
    """Record one answer. An accepted one closes the interrupt. ``code``: the refusal's code.

    ``state_version``: the version that the person answered, if it is not the current one. ``pk``: a reserved primary
    key (``NextKey``), so that the row is written together with those that refer to it.
    """
    assert_in_transaction()
    insert = prepared_queries.insert_row if pk is None else insert_later
    decision = insert(
        Decision(
            pk=pk,
            public_id=new_id("dec"),
            interrupt=interrupt,
            round=interrupt.round,
            state_version=interrupt.state_version if state_version is None else state_version,
            content_digest=interrupt.content_digest,
            by=cast(User | None, by),
            queue_id=None if by is None else interrupt.queue_id,
            cause=cause,
            signal=signal,
            door=door,
            verdict=answer.verdict,
            input=None if answer.input is ABSENT else answer.input,
            arguments=None if answer.arguments is ABSENT else answer.arguments,
            message=answer.message,
            digest=answer.digest(),
            status=status,
            code=code,
            closes=status == DecisionStatus.ACCEPTED,
            request_key=request_key if status in VALID_DECISIONS else "",
            created_at=now,
        )
    )
    row_digests.collect_written_row(interrupt.run.public_id, decision)
    return decision


def move_decisions(interrupt: Interrupt, verb: str, *, only: list[Decision] | None = None) -> list[Decision]:
    """Apply a transition to the interrupt's decisions, or to ``only`` these, and return those that it changed.

    None of them closes the interrupt afterwards.
    """
    assert_in_transaction()
    allowed, to = DECISION_TRANSITIONS[verb]
    movable = Decision.objects.filter(interrupt=interrupt, status__in=allowed)
    if only is not None:
        movable = movable.filter(pk__in=[decision.pk for decision in only])
    moved = list(movable.select_related("by"))
    closes = {"closes": False} if to == DecisionStatus.COUNTED else {}
    Decision.objects.filter(pk__in=[decision.pk for decision in moved]).update(status=to, **closes)
    for decision in moved:
        decision.status, decision.closes = to, closes.get("closes", decision.closes)
        row_digests.collect_written_row(interrupt.run.public_id, decision, STATE)
    return moved


def record_delivery(run: Run, *, now: datetime) -> None:
    """Record that a claim returned the accepted answers of this epoch to a worker.

    A delivered answer can no longer be undone, even if the lease of that claim has ended.
    """
    assert_in_transaction()
    update_later(_DELIVERY, run=run.pk, epoch=run.epoch, delivered_at=now)


def _undelivered(run: int, epoch: int) -> QuerySet[Decision]:
    asked = Interrupt.objects.filter(run=run, epoch=epoch)
    accepted = Decision.objects.filter(status=DecisionStatus.ACCEPTED, delivered_at=None)
    return accepted.filter(interrupt__in=asked.values("pk"))


_DELIVERY = PreparedUpdate(_undelivered, ["delivered_at"])


def any_effect_begun_on_answers(run: Run, interrupts: Iterable[Interrupt]) -> bool:
    """Tell whether an effect of the run was begun since an answer to these was first delivered to a worker.

    Such an interrupt is not reopened, because a person would decide about what has already happened, also if the lease
    was lost since. A failed effect counts only under the current lease, whose worker is still active.
    """
    if run.lease_until is not None and effect_queries.any_effect_begun_under(run.public_id, run.fence):
        return True
    accepted = Decision.objects.filter(interrupt__in=list(interrupts), status=DecisionStatus.ACCEPTED)
    delivered = accepted.aggregate(first=Min("delivered_at"))["first"]
    return delivered is not None and effect_queries.any_effect_begun_since(run.public_id, delivered)


def find_winning_decision(interrupt: Interrupt) -> Decision | None:
    """Return the accepted decision that closed the interrupt."""
    accepted = Decision.objects.filter(interrupt=interrupt, status=DecisionStatus.ACCEPTED, closes=True)
    return accepted.select_related("by").first()


#: The refusal of an answer to a closed interrupt, by its status.
REFUSAL_OF_CLOSED: dict[str, type[Refusal]] = {
    InterruptStatus.ANSWERED: AlreadyDecided,
    InterruptStatus.EXPIRED: Expired,
    InterruptStatus.WITHDRAWN: Withdrawn,
    InterruptStatus.SUPERSEDED: Superseded,
    InterruptStatus.CANCELLED: InterruptCancelled,
}


def closed_refusal(interrupt: Interrupt, winner: Decision | None) -> Refusal:
    """Return the refusal of a request about a closed interrupt, with the winning decision."""
    refusal = REFUSAL_OF_CLOSED[interrupt.status]
    if winner is None:
        return refusal(closed_at=interrupt.closed_at)
    winning = {"decision": winner.public_id, "decided_by": decided_by_label(winner), "decided_at": winner.created_at}
    if interrupt.status != InterruptStatus.ANSWERED:
        return refusal(closed_at=interrupt.closed_at, winner=winning)
    return refusal(f"{decided_by_label(winner)} has already decided this: {winner.verdict}.", winner=winning)


def list_accepted_decisions(run: Run) -> list[Decision]:
    """Return the accepted closing decisions of this epoch, oldest first."""
    decisions = Decision.objects.filter(
        interrupt__run=run, interrupt__epoch=run.epoch, status=DecisionStatus.ACCEPTED, closes=True
    )
    return list(decisions.select_related("interrupt", "by", "permit").order_by("created_at", "id"))


@dataclass(frozen=True, kw_only=True)
class ClaimedDecisions:
    """The decisions that a claim returns, oldest first.

    ``accepted``: closing decisions of this epoch; ``votes``: accepted with them; ``overtaken``: those of one checkpoint
    that a changed fact overtook, which are evidence and permit nothing.
    """

    accepted: list[Decision]
    votes: list[Decision]
    overtaken: list[Decision]

    def without(self, interrupt_pks: set[int]) -> ClaimedDecisions:
        """Return a copy without the answers and votes of these interrupts."""
        return replace(
            self,
            accepted=[decision for decision in self.accepted if decision.interrupt_id not in interrupt_pks],
            votes=[decision for decision in self.votes if decision.interrupt_id not in interrupt_pks],
        )

    @property
    def permits(self) -> list[Permit]:
        """The permits of the accepted decisions that are not void."""
        made = [getattr(decision, "permit", None) for decision in self.accepted]
        return [permit for permit in made if permit is not None and permit.void_at is None]


def read_decisions_for_claim(run: Run, checkpoint_id: int) -> ClaimedDecisions:
    """Return the decisions for a worker that continues from this checkpoint, in one statement under the run's lock."""
    found = _decisions_at.all(run=run.pk, epoch=run.epoch, checkpoint=checkpoint_id)
    for decision in found:
        decision.interrupt.run = run
    return ClaimedDecisions(
        accepted=[decision for decision in found if decision.status == DecisionStatus.ACCEPTED and decision.closes],
        votes=[decision for decision in found if decision.status == DecisionStatus.ACCEPTED and not decision.closes],
        overtaken=[decision for decision in found if decision.status == DecisionStatus.OVERTAKEN and decision.closes],
    )


@prepared
def _decisions_at(run: int, epoch: int, checkpoint: int) -> QuerySet[Decision]:
    decisions = Decision.objects.filter(_counts_at(epoch, checkpoint), interrupt__run=run)
    related = decisions.select_related("interrupt__queue", "by", "permit")
    return related.annotate(characters=ANSWER_CHARACTERS).order_by("created_at", "id")


def _counts_at(epoch: Any, checkpoint: Any) -> Q:
    accepted = Q(interrupt__epoch=epoch, status=DecisionStatus.ACCEPTED)
    return accepted | Q(interrupt__checkpoint=checkpoint, status=DecisionStatus.OVERTAKEN)


def answers_for_list(run: Run, checkpoint_id: int) -> QuerySet[Decision]:
    """Return the queryset of all answers for a paged list; a claim from this checkpoint lists some of them."""
    closing = Decision.objects.filter(_counts_at(run.epoch, checkpoint_id), interrupt__run=run, closes=True)
    return closing.select_related("interrupt", "by", "permit", "signal")


def permits_for_list(run: Run, *, now: datetime) -> QuerySet[Permit]:
    """Return the queryset of all permits for a paged list; a claim lists some of them."""
    answers = Decision.objects.filter(interrupt__run=run, interrupt__epoch=run.epoch, closes=True)
    good = Permit.objects.filter(void_at=None, valid_until__gt=now)
    accepted = good.filter(decision__in=answers.filter(status=DecisionStatus.ACCEPTED).values("pk"))
    return accepted.select_related("decision__interrupt")


def choose_answers_of_claim(decisions: ClaimedDecisions, checkpoint_id: int) -> tuple[ClaimedDecisions, bool]:
    """Return the answers that a claim lists, and whether there are others.

    All answers of its checkpoint are listed, however long they are: a worker takes a missing one for an open request. Of
    several overtaken answers of one interrupt, this is the newest. The newest of the earlier answers fill the limits.
    """
    closing = [*decisions.accepted, *decisions.overtaken]
    if len(closing) <= 1:
        return decisions, False
    of_checkpoint = [it for it in closing if it.interrupt.checkpoint_id == checkpoint_id]  # oldest first of each status
    required = set({(it.status, it.interrupt_id): it.pk for it in of_checkpoint}.values())
    in_order = sorted(closing, key=lambda it: (it.pk in required, it.created_at, it.pk))
    chosen: set[int] = set()
    room = MAX_ANSWER_CHARACTERS_OF_CLAIM
    for decision in in_order[::-1][: max(MAX_ANSWERS_OF_CLAIM, len(required))]:
        room -= decision.characters  # type: ignore[attr-defined]  # an annotation
        if chosen and room < 0 and decision.pk not in required:
            break
        chosen.add(decision.pk)
    listed = replace(
        decisions,
        accepted=[decision for decision in decisions.accepted if decision.pk in chosen],
        overtaken=[decision for decision in decisions.overtaken if decision.pk in chosen],
    )
    return listed, len(chosen) < len(closing)


def decided_by_label(decision: Decision) -> str:
    """Return the person's address, or the cause if no person decided (``system:expiry``)."""
    return decision.cause if decision.by is None else decision.by.get_username()


@dataclass(frozen=True, kw_only=True)
class Tally:
    """The quorum of an interrupt and its votes; ``overtaken`` are votes for an earlier content."""

    needed: int
    votes: list[Decision]
    overtaken: list[Decision]

    @property
    def counted(self) -> int:
        """The number of votes for the current content."""
        return len(self.votes)

    @property
    def missing(self) -> int:
        """The number of votes that are still needed."""
        return max(0, self.needed - self.counted)

    def includes(self, person: AbstractBaseUser) -> bool:
        return any(vote.by_id == person.pk for vote in self.votes)


def tally_votes(interrupt: Interrupt) -> Tally:
    """Return the current votes on an interrupt."""
    cast = Decision.objects.filter(interrupt=interrupt, by__isnull=False, verdict__in=sorted(APPROVING))
    found = list(cast.select_related("by").order_by("created_at", "id"))
    shown_now = [vote for vote in found if vote.status in VALID_DECISIONS]
    return Tally(
        needed=interrupt.quorum,
        votes=[vote for vote in shown_now if vote.content_digest == interrupt.content_digest],
        overtaken=[vote for vote in found if vote.status == DecisionStatus.OVERTAKEN],
    )


def tally_votes_of(interrupts: Iterable[Interrupt]) -> dict[int, Tally]:
    """Return the tallies of those interrupts that have a quorum above 1, by primary key, in one statement."""
    several = {interrupt.pk: interrupt for interrupt in interrupts if interrupt.quorum > 1}
    if not several:
        return {}
    cast = Decision.objects.filter(
        interrupt__in=list(several), verdict__in=sorted(APPROVING), status__in=sorted(VALID_DECISIONS)
    )
    votes: dict[int, list[Decision]] = {pk: [] for pk in several}
    for vote in cast.select_related("by").order_by("created_at", "id"):
        if vote.content_digest == several[vote.interrupt_id].content_digest:
            votes[vote.interrupt_id].append(vote)
    return {pk: Tally(needed=several[pk].quorum, votes=votes[pk], overtaken=[]) for pk in several}


def list_counted_votes(interrupt: Interrupt) -> QuerySet[Decision]:
    """Return the votes that are counted while others are missing, oldest first."""
    counted = Decision.objects.filter(interrupt=interrupt, status=DecisionStatus.COUNTED)
    return counted.select_related("by", "queue").order_by("created_at", "id")


def list_accepted_votes(interrupt: Interrupt) -> QuerySet[Decision]:
    """Return the votes that were accepted with the closing decision, without that one, oldest first."""
    accepted = Decision.objects.filter(interrupt=interrupt, status=DecisionStatus.ACCEPTED, closes=False)
    return accepted.select_related("by", "queue").order_by("created_at", "id")


def find_own_vote(interrupt: Interrupt, person: AbstractBaseUser) -> Decision | None:
    """Return the counted vote of this person."""
    return list_counted_votes(interrupt).filter(by=person.pk).first() if interrupt.quorum > 1 else None


def second_vote_refusal(interrupt: Interrupt, vote: Decision) -> AlreadyVoted:
    """Return the refusal of a second vote, which names the first one."""
    so_far = tally_votes(interrupt)
    return AlreadyVoted(
        f"Your vote is already counted: {so_far.counted} of {so_far.needed}. Other people must cast the remaining votes.",
        vote={"decision": vote.public_id, "decided_at": vote.created_at},
        approvals={"needed": so_far.needed, "counted": so_far.counted},
    )
