"""Responses to workers that continue a run and perform effects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.conf import settings

from ledger import compensation
from ledger.exact_json import ABSENT
from ledger.states import EffectStatus
from reviewqueue.api.response_serializers import (
    BOOLEAN,
    DATETIME,
    DIGEST,
    EXACT,
    INTEGER,
    OBJECT,
    TEXT,
    ResponseSerializer,
    choice,
    include,
    list_of,
    map_of,
    member,
    nullable,
    token,
)
from reviewqueue.api.responses.interrupts import PERMIT_ID, AnswerResponse, answer_of, answers_by_key
from reviewqueue.api.responses.runs import (
    CONTINUATION_ID,
    NEXT_PAGE,
    RUN_ID,
    CheckpointContentResponse,
    FactValueResponse,
    LeaseResponse,
)
from runs.facts import is_valid_credential
from runs.models import Fact, FactCheck, FactKind, Run
from runs.states import Cause, ContinuationKind
from runs.use_cases.begin_effect import BegunEffect
from runs.use_cases.claim_continuation import ClaimedRun

# --- effects --------------------------------------------------------------------------------------------------------------


class EffectResponse(ResponseSerializer):
    """An effect of the ledger (``Effect``)."""

    key = member(TEXT, "Your key of the effect.")
    name = member(TEXT, "Name of the call.")
    status = member(choice(EffectStatus.values), "Status of the effect.")
    attempt = member(INTEGER, "Number of the attempt, from 1.")
    receipt = member(EXACT, "Response of the receiver; null while nothing is known.")
    error = member(nullable(TEXT), "What went wrong; null without an error.", lambda effect: effect.error or None)
    retryable = member(BOOLEAN, "Whether a failed effect may be tried again.")
    undoes = member(
        nullable(TEXT),
        "Key of the effect that this one compensates; null if it compensates none.",
        lambda effect: effect.undoes.key if effect.undoes else None,
    )


class EffectListResponse(ResponseSerializer):
    """A page of a run's effects (``ListPage``)."""

    effects = member(list_of(EffectResponse), "Effects of the run, in the order in which they were begun.", "rows")
    next = member(nullable(TEXT), NEXT_PAGE)


def _has_failed(begun: BegunEffect) -> bool:
    return not begun.perform and begun.effect.status == EffectStatus.FAILED


class BegunEffectResponse(ResponseSerializer):
    """Whether the worker must perform the call now, or what is recorded of it (``begin_effect.Begun``)."""

    key = member(TEXT, "Your key of the effect.", "effect.key")
    status = member(choice(EffectStatus.values), "Status of the effect.", "effect.status")
    perform = member(BOOLEAN, "True: perform the call now, then report its outcome. False: this is what is recorded.")
    attempt = member(INTEGER, "Number of the attempt, from 1.", "effect.attempt")
    attempt_token = member(
        token("att"),
        "Token to report the outcome with. It is valid even after the lease has ended.",
        lambda begun: begun.attempt_token if begun.perform else ABSENT,
        optional=True,
    )
    arguments = member(
        EXACT,
        "Arguments of the call, by name.",
        lambda begun: begun.effect.call["arguments"] if begun.perform else ABSENT,
        optional=True,
    )
    digest = member(
        DIGEST,
        "Digest of the call (rq1:, SHA-256 over canonical JSON).",
        lambda begun: begun.effect.call_digest if begun.perform else ABSENT,
        optional=True,
    )
    receipt = member(
        EXACT,
        "Recorded response of the receiver.",
        lambda begun: ABSENT if begun.perform else begun.effect.receipt,
        optional=True,
    )
    error = member(
        nullable(TEXT),
        "What went wrong; null if the worker did not say.",
        lambda begun: begun.effect.error or None if _has_failed(begun) else ABSENT,
        optional=True,
    )
    retryable = member(
        BOOLEAN,
        "Whether a failed effect may be tried again.",
        lambda begun: begun.effect.retryable if _has_failed(begun) else ABSENT,
        optional=True,
    )


# --- claims ---------------------------------------------------------------------------------------------------------------


class ClaimedRunResponse(ResponseSerializer):
    """The run of a claim (``Run``)."""

    id = member(RUN_ID, "Id of the run.", "public_id")
    key = member(TEXT, "Your key of the run.")
    title = member(TEXT, "One line that people read.")
    epoch = member(INTEGER, "Number of restarts, plus one.")
    code_version = member(
        TEXT, "Version of the agent's code. The run is offered to workers of the same version, or that accept it."
    )
    metadata = member(OBJECT, "Your own small object.")


class ClaimedCheckpointResponse(ResponseSerializer):
    """The checkpoint from which the run continues (``claim_continuation.Claimed``)."""

    _checkpoint = include(CheckpointContentResponse, "checkpoint")
    compensated_since = member(
        list_of(TEXT),
        "Keys of effects that were compensated after the checkpoint, which its state does not know; at most 1,000, the "
        "newest.",
        lambda claimed: claimed.compensated_since or ABSENT,
        optional=True,
    )


@dataclass(frozen=True, kw_only=True)
class ClaimedFact:
    """A fact, and whether it is a valid credential at the claim."""

    fact: Fact
    valid: bool | None


class ClaimedFactResponse(ResponseSerializer):
    """A fact in a claim (``ClaimedFact``)."""

    _fact = include(FactValueResponse, "fact")
    check = member(
        choice(FactCheck.values),
        "Who checks the fact again: `worker` (report it), `connection` (this server), or `none`.",
        "fact.check_by",
    )
    kind = member(choice(FactKind.values), "`value` or `credential`.", "fact.kind")
    valid = member(
        nullable(BOOLEAN),
        "Whether a credential was valid at the claim. False: renew and report it first. Null for a value.",
    )


class ClaimedAnswerResponse(ResponseSerializer):
    """An answer in a claim (``ClaimedAnswer``)."""

    _answer = include(AnswerResponse, "answer")
    new = member(
        BOOLEAN, "Whether it answers an interrupt of the last suspend. Earlier answers are repeated for replays."
    )


@dataclass(frozen=True, kw_only=True)
class ClaimedAnswer:
    """An answer, and whether it belongs to the last suspend."""

    answer: Any
    new: bool


@dataclass(frozen=True, kw_only=True)
class ListedAnswer:
    """An answer of a run with its key, and whether a fact overtook it, which a claim tells by their places."""

    key: str
    claimed: ClaimedAnswer
    overtaken: bool


class ListedAnswerResponse(ResponseSerializer):
    """An answer of a run, as a claim has it (``ListedAnswer``)."""

    key = member(TEXT, "Key of the interrupt.")
    _answer = include(ClaimedAnswerResponse, "claimed")
    overtaken = member(BOOLEAN, "Whether it no longer counts because a fact changed; a claim has it in `overtaken`.")


class AnswerListResponse(ResponseSerializer):
    """A page of a run's answers (``ListPage``)."""

    answers = member(
        list_of(ListedAnswerResponse), "Answers, oldest first. Of two with the same key, the later one counts.", "rows"
    )
    next = member(nullable(TEXT), NEXT_PAGE)


class PermitResponse(ResponseSerializer):
    """An approved call that can be performed once (``Permit``)."""

    id = member(PERMIT_ID, "Id of the permit.", "public_id")
    interrupt = member(TEXT, "Key of the interrupt that was approved.", "decision.interrupt.key")
    name = member(TEXT, "Name of the approved call.", lambda permit: permit.call["name"])
    digest = member(DIGEST, "Digest of the approved call (rq1:, SHA-256 over canonical JSON).")
    valid_until = member(DATETIME, "Time until which the permit can be used.")


class PermitListResponse(ResponseSerializer):
    """A page of a run's permits (``ListPage``)."""

    permits = member(list_of(PermitResponse), "Permits, oldest first.", "rows")
    next = member(nullable(TEXT), NEXT_PAGE)


class DueCompensationResponse(ResponseSerializer):
    """An effect that must be compensated (``Effect``)."""

    key = member(TEXT, "Key of the compensation. Begin it with this key.", compensation.compensation_key)
    undoes = member(TEXT, "Key of the effect to compensate.", "key")
    name = member(TEXT, "Name of the call that compensates the effect.", lambda effect: effect.compensation["name"])
    arguments = member(
        EXACT, "Arguments of that call, as they were declared.", lambda effect: effect.compensation["arguments"]
    )
    receipt = member(EXACT, "Response of the receiver to the effect itself.")


class DueCompensationsResponse(ResponseSerializer):
    """The first effects to compensate (``NextCompensations``)."""

    compensations = member(list_of(DueCompensationResponse), "Effects to compensate next, newest first.", "effects")
    more = member(
        BOOLEAN,
        "Whether other effects follow. Compensate these, then get the list again: it has the next ones.",
        "has_more",
    )


class ClaimResponse(ResponseSerializer):
    """Everything that a worker needs to continue a run (``claim_continuation.Claimed``)."""

    id = member(CONTINUATION_ID, "Id of the continuation.", "continuation.public_id")
    kind = member(
        choice(ContinuationKind.values),
        "`resume`: continue the run. `compensate`: compensate the effects of an ended run.",
        "continuation.kind",
    )
    cause = member(
        choice(Cause.values), "Why the run continues: person, system:expiry, withdrawn, start ...", "continuation.cause"
    )
    attempt = member(INTEGER, "Number of claims of the run since its last checkpoint.", "run.attempts")
    traceparent = member(
        nullable(TEXT),
        "Trace context (W3C) of the answer, for the worker's own spans; null unless the server traces.",
        "continuation.trace_parent",
    )
    run = member(ClaimedRunResponse, "The run.")
    lease = member(LeaseResponse, "Lease of the run.")
    checkpoint = member(ClaimedCheckpointResponse, "Checkpoint from which the run continues.", "*")
    answers = member(
        map_of(ClaimedAnswerResponse), "Answers, by the interrupt's key.", lambda claimed: _answers_of(claimed)
    )
    overtaken = member(
        map_of(AnswerResponse),
        "Answers that no longer count because a fact changed, by the interrupt's key.",
        lambda claimed: answers_by_key(claimed.overtaken),
    )
    more_answers = member(
        nullable(TEXT),
        "URL of the whole list if `answers` and `overtaken` do not have every answer; otherwise null. They have all of the "
        "last suspend, and the newest earlier ones while they are together at most 100, with 256 KiB of contents.",
        lambda claimed: _url(claimed.run, "answers") if claimed.has_more_answers else None,
    )
    changed = member(list_of(FactValueResponse), "Facts whose value differs from the one that the run relies on.")
    facts = member(
        list_of(ClaimedFactResponse), "Facts that the rest of the run relies on.", lambda claimed: _facts_of(claimed)
    )
    effects = member(
        list_of(EffectResponse),
        "Effects of the run, in the order in which they were begun: open ones first, then the newest; at most 100, with "
        "256 KiB of receipts. An effect with a receipt of over 16,000 characters is left out.",
    )
    more_effects = member(
        nullable(TEXT),
        "URL of the whole list if `effects` does not have every effect of the run; otherwise null.",
        lambda claimed: _url(claimed.run, "effects") if claimed.has_more_effects else None,
    )
    permits = member(list_of(PermitResponse), "Approved calls that have not been performed; at most 100, the newest.")
    more_permits = member(
        nullable(TEXT),
        "URL of the whole list if `permits` does not have every permit; otherwise null.",
        lambda claimed: _url(claimed.run, "permits") if claimed.has_more_permits else None,
    )
    compensations = member(
        list_of(DueCompensationResponse),
        "Effects that a `compensate` continuation must compensate, newest first. Begin each by its key, then report it. "
        "At most 100, with 256 KiB of arguments and receipts.",
        "undone",
    )
    more_compensations = member(
        nullable(TEXT),
        "URL of the effects to compensate next, for when these are compensated; null if no others follow.",
        lambda claimed: _url(claimed.run, "compensations") if claimed.has_more_undone else None,
    )


def _answers_of(claimed: ClaimedRun) -> dict[str, ClaimedAnswer]:
    last = claimed.continuation.checkpoint_id
    return {
        decision.interrupt.key: ClaimedAnswer(answer=answer_of(decision), new=decision.interrupt.checkpoint_id == last)
        for decision in claimed.answers
    }


def _facts_of(claimed: ClaimedRun) -> list[ClaimedFact]:
    at = claimed.continuation.leased_at
    return [
        ClaimedFact(fact=fact, valid=None if at is None else is_valid_credential(fact, now=at))
        for fact in claimed.facts
    ]


def _url(run: Run, name: str) -> str:
    return f"{settings.BASE_URL}/api/v1/runs/{run.public_id}/{name}"
