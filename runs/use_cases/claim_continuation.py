"""A worker claims a continuation.

Under the run's lock the claim checks again whether the people behind the answers may still decide (``revocation``). If
one of them cannot, the request is reopened and no lease is granted.
"""

from __future__ import annotations

import functools
from collections.abc import Set
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet, Sum
from django.db.models.functions import Length

from ledger import clock, effect_queries, prepared_queries
from ledger.actors import agent_actor
from ledger.compensation import NextCompensations
from ledger.effect_queries import EffectsForClaim
from ledger.errors import NotFound
from ledger.models import Effect
from ledger.prepared_queries import CurrentTime, PreparedQuery, RowList, prepared
from ledger.transactions import assert_in_transaction, use_case
from runs.checkpoints import has_recorded_state
from runs.compensation import read_next_compensations
from runs.continuations import lease_continuation, recheck_continuation, was_handed_back_by
from runs.decisions import ClaimedDecisions, choose_answers_of_claim, read_decisions_for_claim, record_delivery
from runs.errors import AlreadyClaimed, IncompatibleVersion, NotReady, RecordChanged
from runs.facts import has_changed
from runs.holds import has_other_holds, lift_holds, open_hold
from runs.kill_switch import open_halts, refuse_halted_agent
from runs.leases import Lease, current_lease, grant_lease
from runs.locks import locked_runs
from runs.models import Agent, Checkpoint, Continuation, Decision, Fact, HandBack, Hold, Permit, Run
from runs.revocation import StillMayDecide, find_lost_approval
from runs.run_status import save_status
from runs.states import ContinuationKind, ContinuationStatus, HoldKind, RunStatus
from runs.timeline import record_event
from runs.use_cases.revoke_approvals import revoke_lost_answers
from runs.verification import find_changed, is_decision_as_recorded

SYSTEM = "system:leases"


@dataclass(frozen=True, kw_only=True)
class ClaimRequest:
    """A worker's request to claim. ``still_may_decide`` comes from the layer that knows people.

    ``code_version`` is the worker's own version, and ``code_versions`` are all whose checkpoints it can read. A repeated
    ``request_key`` returns the same claims.
    """

    agent: Agent
    code_version: str = ""
    code_versions: set[str]
    lease_seconds: int
    request_key: str = ""
    still_may_decide: StillMayDecide


@dataclass(frozen=True, kw_only=True)
class ClaimedRun:
    """Everything that a worker needs to continue until the next checkpoint, in one response."""

    run: Run
    lease: Lease
    continuation: Continuation
    checkpoint: Checkpoint
    answers: list[Decision]
    overtaken: list[Decision]
    has_more_answers: bool  # than ``answers`` and ``overtaken`` list; the others are read page by page, as below
    facts: list[Fact]
    effects: list[Effect]
    has_more_effects: bool  # than ``effects`` lists; the others are read page by page
    permits: list[Permit]
    has_more_permits: bool
    compensated_since: list[str]
    undone: list[Effect]  # effects to compensate, newest first
    has_more_undone: bool

    @property
    def changed(self) -> list[Fact]:
        """Return the facts that differ from the values that the agent relied on."""
        return [fact for fact in self.facts if has_changed(fact)]


def has_claimable_run(*, agent: Agent, code_version: str = "", code_versions: set[str]) -> bool:
    """Tell whether a claim may succeed, in one statement outside a transaction: a hint for long polling."""
    versions = _versions(code_versions)
    return bool(_any_ready(len(versions)).all(agent=agent.pk, own=code_version, **versions))


def claim_continuations(request: ClaimRequest, *, limit: int) -> list[ClaimedRun]:
    """Claim up to ``limit`` runs, the most urgent first, in one transaction each; fewer if they are large.

    A run that a worker of the same code version handed back as unreadable is not offered to it again.
    """
    claimed = _find_repeated_claims(request) if request.request_key else []
    if claimed and max(_count_state_characters(claimed), _count_answer_characters(claimed)) > MAX_STATE_CHARACTERS:
        return claimed
    misses, measured = 0, len(claimed)
    while (not claimed or len(claimed) < limit) and misses < MAX_MISSES:
        outcome = _claim_next(request)
        if outcome is None:
            break
        if isinstance(outcome, ClaimedRun):
            claimed.append(outcome)
            if _count_answer_characters(claimed) > MAX_STATE_CHARACTERS:
                break
            if len(claimed) - measured >= CLAIMS_BETWEEN_SIZES:
                measured = len(claimed)
                if _count_state_characters(claimed) > MAX_STATE_CHARACTERS:
                    break
        else:
            misses += 1
    return claimed


#: Limit of runs that one call finds without claiming one: an unclaimable continuation may be found again each time.
MAX_MISSES = 100
#: Limit of permits, the newest, that a claim lists.
MAX_PERMITS_OF_CLAIM = 100
#: Characters of states, or of answers, after which a claim takes no further run. States are measured after so many runs.
MAX_STATE_CHARACTERS, CLAIMS_BETWEEN_SIZES = 4_000_000, 20


def _count_state_characters(claimed: list[ClaimedRun]) -> int:
    checkpoints = Checkpoint.objects.filter(pk__in=[it.checkpoint.pk for it in claimed])
    return int(checkpoints.aggregate(all=Sum(Length("state")))["all"])


def _count_answer_characters(claimed: list[ClaimedRun]) -> int:
    listed = [decision for it in claimed for decision in (*it.answers, *it.overtaken)]
    return sum(decision.characters for decision in listed)  # type: ignore[attr-defined]  # an annotation


@use_case
def claim_continuation_by_id(request: ClaimRequest, *, continuation_id: str) -> ClaimedRun | NotReady:
    """Claim a named continuation. Raises ``AlreadyClaimed``, ``NotReady``, ``IncompatibleVersion``, ``NotFound``."""
    run = locked_runs().filter(agent=request.agent, planted=None, continuations__public_id=continuation_id).first()
    if run is None:
        raise NotFound
    now = clock.now()
    continuation = Continuation.objects.select_related("checkpoint__file").get(public_id=continuation_id)
    is_leased = continuation.status == ContinuationStatus.LEASED
    if is_leased and request.request_key and continuation.request_key == request.request_key:
        return _repeat_claim(run, continuation, request.still_may_decide, now=now)
    if continuation.status in {ContinuationStatus.LEASED, ContinuationStatus.ACKNOWLEDGED}:
        raise AlreadyClaimed
    compensating = continuation.kind == ContinuationKind.COMPENSATE
    if run.ending and not compensating:
        raise NotReady(f"The run is {run.status}.", status=run.status)  # it will never be ready
    if continuation.status != ContinuationStatus.READY or continuation.not_before > now:
        raise NotReady(status=continuation.status)
    if not compensating:
        _refuse_other_version(run, request)
    refuse_halted_agent(request.agent.pk)
    if not _may_be_claimed(run, compensating=compensating):
        raise NotReady(f"The run is {run.status}.", status=run.status)
    outcome = _claim(run, continuation, request, now=now)
    return outcome or NotReady("The request must be decided again, or its facts must be revalidated first.")


@use_case
def _claim_next(request: ClaimRequest) -> ClaimedRun | bool | None:
    """Claim the next ready run. Returns ``False`` if it was not ready after all, ``None`` if there is none.

    Concurrent workers skip runs that others have locked. They read the continuation only after the lock, because the
    first statement may have seen an older state of it.
    """
    assert_in_transaction()
    agent, versions = request.agent, _versions(request.code_versions)
    run = _next_to_lock(len(versions)).first(agent=agent.pk, own=request.code_version, **versions)
    if run is None:
        return None
    found = read_claim_basis(run)
    if found is None:
        return False
    if found.is_halted:
        return None
    continuation = found.continuation
    compensating = continuation.kind == ContinuationKind.COMPENSATE
    if not _may_be_claimed(run, compensating=compensating):
        return False
    if not compensating and was_handed_back_by(run, request.code_version):
        return False  # the statement may have read other tables before it got the lock
    continuation.run, continuation.agent = run, agent
    return _claim(run, continuation, request, now=found.now, basis=found) or False


@dataclass(frozen=True, kw_only=True)
class ClaimBasis:
    """What a claim depends on beside the locked run: its ready continuation, the time, and whether its agent is halted."""

    now: datetime
    is_halted: bool
    continuation: Continuation
    facts: list[Fact]
    has_effects: bool


def read_claim_basis(run: Run) -> ClaimBasis | None:
    """Read it in one statement after the lock; ``None`` without a ready continuation."""
    continuation: Any = _claim_basis.first(run=run.pk, scope=run.public_id)
    if continuation is None:
        return None
    return ClaimBasis(
        now=continuation.read_at,
        is_halted=continuation.is_halted,
        continuation=continuation,
        facts=continuation.read_facts,
        has_effects=continuation.has_effects,
    )


@prepared
def _claim_basis(run: int, scope: str) -> QuerySet[Any]:
    ready = Continuation.objects.filter(run=run, status=ContinuationStatus.READY, not_before__lte=CurrentTime())
    facts = Fact.objects.filter(checkpoint=OuterRef("checkpoint")).order_by("id")
    return ready.select_related("checkpoint__file").annotate(
        read_at=CurrentTime(),
        is_halted=Exists(open_halts().filter(agent=OuterRef("agent"))),
        read_facts=RowList(facts, *[field.name for field in Fact._meta.concrete_fields]),
        has_effects=Exists(Effect.objects.filter(scope=scope)),
    )


def _versions(code_versions: set[str]) -> dict[str, str]:
    return {f"version_{place}": version for place, version in enumerate(sorted({*code_versions, ""}))}


def _ready(count: int) -> Q:
    """Return the filter for runs that a worker with ``count`` code versions can claim at the time of the query."""
    is_offered = Q(
        planted=None,
        continuations__agent=prepared_queries.int_parameter("agent"),
        continuations__status=ContinuationStatus.READY,
        continuations__not_before__lte=prepared_queries.StatementTime(),
    )
    versions = [prepared_queries.text_parameter(f"version_{place}") for place in range(count)]
    # Compensation is a list of exact calls, so a worker of any code version can run it.
    compensating = Q(status=RunStatus.CANCELLING, open_holds=0)
    stranded = Exists(Hold.objects.filter(run=OuterRef("pk"), kind=HoldKind.STRANDED, lifted_at=None))
    is_claimable = Q(status=RunStatus.READY) | (Q(status=RunStatus.BLOCKED, open_holds=1) & Q(stranded))
    unread = HandBack.objects.filter(
        run=OuterRef("pk"), over_at=None, code_version=prepared_queries.text_parameter("own")
    )
    reads_it = Q(code_version__in=versions) & (Q(handed_back=0) | ~Q(Exists(unread)))
    return is_offered & ((is_claimable & reads_it) | compensating)


@functools.cache
def _any_ready(count: int) -> PreparedQuery[tuple[int]]:
    return PreparedQuery(lambda: Run.objects.filter(_ready(count)).values_list("pk")[:1])


@functools.cache
def _next_to_lock(count: int) -> PreparedQuery[Run]:
    in_order = ("-continuations__priority", "continuations__not_before", "continuations__id")
    return PreparedQuery(lambda: locked_runs(skip_locked=True).filter(_ready(count)).order_by(*in_order)[:1])


def _claim(
    run: Run, continuation: Continuation, request: ClaimRequest, *, now: datetime, basis: ClaimBasis | None = None
) -> ClaimedRun | None:
    """Lease the ready continuation of the locked run, or send it back and return ``None``."""
    if continuation.checked_until is not None and continuation.checked_until <= now:
        recheck_continuation(run, continuation, now=now)
        save_status(run, now)
        return None
    consulted = EffectsForClaim(effects=[], is_whole=True)
    if basis is None or basis.has_effects:
        consulted = effect_queries.read_effects_for_claim(run.public_id)
    decisions = _decisions_for(run, continuation)
    try:
        reopened, decisions = revoke_lost_answers(
            run,
            decisions,
            checkpoint_id=continuation.checkpoint_id,
            consulted=consulted,
            still_may_decide=request.still_may_decide,
            now=now,
        )
    except RecordChanged as refusal:  # a policy was changed; nothing was written yet
        if continuation.kind == ContinuationKind.RESUME:
            _hold_changed_records(run, continuation, refusal.extra["record"], now=now)
            return None
        reopened = False
    if reopened:
        save_status(run, now)
        return None
    if continuation.kind == ContinuationKind.RESUME:
        changed = _find_changed(run, continuation.checkpoint, decisions)
        if changed:
            _hold_changed_records(run, continuation, changed, now=now)
            return None
    content = _read_content(run, continuation.checkpoint, basis)  # before the writes, which are then one statement
    lift_holds(run, HoldKind.STRANDED, by="system:claim", now=now)
    grant_lease(run, seconds=request.lease_seconds, now=now)
    run.attempts += 1
    lease_continuation(run, continuation, request_key=request.request_key, code_version=request.code_version, now=now)
    if any(decision.delivered_at is None for decision in [*decisions.accepted, *decisions.votes]):
        record_delivery(run, now=now)
    record_event(
        run,
        "continuation.claimed",
        actor=agent_actor(continuation.agent.slug),
        at=now,
        continuation=continuation.public_id,
        fence=run.fence,
        attempt=run.attempts,
        code_version=request.code_version,
    )
    save_status(run, now)
    return _describe_claim(run, continuation, decisions, consulted, content, now=now)


def _find_changed(run: Run, checkpoint: Checkpoint, decisions: ClaimedDecisions) -> str:
    """Compare the checkpoint and the decisions made at it with their digests and with the events that recorded them."""
    if not has_recorded_state(checkpoint):
        return checkpoint.covered_as
    given = [decision for decision in decisions.accepted if decision.interrupt.checkpoint_id == checkpoint.pk]
    changed = next((decision for decision in given if not is_decision_as_recorded(decision)), None)
    return changed.covered_as if changed else find_changed(run, [checkpoint, *given])


def _hold_changed_records(run: Run, continuation: Continuation, changed: str, *, now: datetime) -> None:
    """Hold a run whose records were changed: the owner restores the row, or restarts the run."""
    number, owner_id = continuation.checkpoint.number, continuation.agent.owner_id
    reason = f"Checkpoint {number} was changed after it was written, or its storage is damaged."
    if not changed.startswith("checkpoint:"):
        reason = f"A record that belongs to checkpoint {number} was changed after it was written: {changed}."
    open_hold(run, HoldKind.CHECKPOINT_SPOILT, owner_id=owner_id, reason=reason, now=now)
    record_event(run, "hold.opened", actor=SYSTEM, at=now, kind=HoldKind.CHECKPOINT_SPOILT, reason=reason)
    recheck_continuation(run, continuation, now=now)
    save_status(run, now)


def _find_repeated_claims(request: ClaimRequest) -> list[ClaimedRun]:
    """Return what this request already claimed, in case its response was lost."""
    leased = Continuation.objects.filter(
        agent=request.agent,
        request_key=request.request_key,
        status=ContinuationStatus.LEASED,
        run__planted=None,
    )
    claimed, now = [], clock.now()
    for continuation in leased.select_related("run", "checkpoint__file").order_by("id"):
        run = continuation.run
        if run.lease_until and run.lease_until > now and run.fence == continuation.fence:
            claimed.append(_repeat_claim(run, continuation, request.still_may_decide, now=now))
    return claimed


def _repeat_claim(
    run: Run, continuation: Continuation, still_may_decide: StillMayDecide, *, now: datetime
) -> ClaimedRun:
    """Return what the same request claimed before, without permits that expired or lost their authorisation since."""
    decisions, consulted = _decisions_for(run, continuation), effect_queries.read_effects_for_claim(run.public_id)
    lost = {
        permit.decision.interrupt_id for permit in decisions.permits if find_lost_approval(permit, still_may_decide)
    }
    content = _read_content(run, continuation.checkpoint)
    return _describe_claim(run, continuation, decisions, consulted, content, now=now, lost=lost)


@dataclass(frozen=True, kw_only=True)
class _Content:
    """What a claim returns beside decisions and effects."""

    facts: list[Fact]
    compensated_since: list[str]
    undone: NextCompensations


def _read_content(run: Run, checkpoint: Checkpoint, basis: ClaimBasis | None = None) -> _Content:
    has_effects = basis is None or basis.has_effects
    return _Content(
        facts=_facts_of_checkpoint.all(checkpoint=checkpoint.pk) if basis is None else basis.facts,
        compensated_since=_compensated_since(run, checkpoint) if has_effects else [],
        undone=read_next_compensations(run) if has_effects else NextCompensations(effects=[], has_more=False),
    )


def _describe_claim(
    run: Run,
    continuation: Continuation,
    decisions: ClaimedDecisions,
    consulted: EffectsForClaim,
    content: _Content,
    *,
    now: datetime,
    lost: Set[int] = frozenset(),
) -> ClaimedRun:
    """Return the claim. ``lost``: interrupts whose permits lost their authorisation."""
    listed, has_more_answers = choose_answers_of_claim(decisions, continuation.checkpoint_id)
    permits = [it for it in decisions.permits if it.valid_until > now and it.decision.interrupt_id not in lost]
    return ClaimedRun(
        run=run,
        lease=current_lease(run),
        continuation=continuation,
        checkpoint=continuation.checkpoint,
        answers=listed.accepted,
        overtaken=listed.overtaken,
        has_more_answers=has_more_answers,
        facts=content.facts,
        effects=consulted.effects,
        has_more_effects=not consulted.is_whole,
        permits=permits[-MAX_PERMITS_OF_CLAIM:],
        has_more_permits=len(permits) > MAX_PERMITS_OF_CLAIM,
        compensated_since=content.compensated_since,
        undone=content.undone.effects,
        has_more_undone=content.undone.has_more,
    )


def _decisions_for(run: Run, continuation: Continuation) -> ClaimedDecisions:
    """Return the decisions at the checkpoint. A compensating worker continues without any."""
    if continuation.kind == ContinuationKind.COMPENSATE:
        return ClaimedDecisions(accepted=[], overtaken=[], votes=[])
    return read_decisions_for_claim(run, continuation.checkpoint_id)


def _compensated_since(run: Run, checkpoint: Checkpoint) -> list[str]:
    """Return effects compensated after the checkpoint that the restart resumes from."""
    return (
        [] if checkpoint.taken_at is None else effect_queries.keys_compensated_since(run.public_id, checkpoint.taken_at)
    )


@prepared
def _facts_of_checkpoint(checkpoint: int) -> QuerySet[Fact]:
    return Fact.objects.filter(checkpoint=checkpoint).order_by("id")


def _refuse_other_version(run: Run, request: ClaimRequest) -> None:
    needed = run.code_version
    if needed and needed not in request.code_versions:
        raise IncompatibleVersion(f"The run waits for code version {needed}.", code_version=needed)
    if was_handed_back_by(run, request.code_version):
        version = request.code_version
        who = f"A worker of code version {version}" if version else "A worker without a code version"
        raise IncompatibleVersion(f"{who} could not read the checkpoint and handed the run back.", code_version=needed)


def _may_be_claimed(run: Run, *, compensating: bool) -> bool:
    if compensating:
        return run.status == RunStatus.CANCELLING and not run.open_holds
    return run.status in {RunStatus.READY, RunStatus.BLOCKED} and not has_other_holds(run, HoldKind.STRANDED)
