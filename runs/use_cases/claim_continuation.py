"""Going on: a worker claims a continuation.

Under the run's lock, the claim judges again whether the people behind its answers may still decide (``revocation``); if
one of them may not, the request is reopened and nothing is leased. How a run comes back from its worker is
``returning``'s.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from datetime import datetime

from django.db.models import Exists, OuterRef, Q

from ledger import clock, effect_queries, prepared_queries
from ledger.actors import by_agent
from ledger.effect_queries import Consulted
from ledger.errors import NotFound
from ledger.models import Effect
from ledger.prepared_queries import Compiled
from ledger.transactions import assert_open, use_case
from runs.checkpoints import is_intact
from runs.compensation import due_now
from runs.continuations import (
    lease_continuation,
    recheck,
)
from runs.decisions import Said, decisions_at, record_delivery
from runs.errors import AlreadyClaimed, IncompatibleVersion, NotReady, RecordChanged
from runs.facts import differs
from runs.hand_backs import was_handed_back_by
from runs.holds import is_held_by_others, lift_holds, open_hold
from runs.kill_switch import is_halted, refuse_halted
from runs.leases import Lease, grant_lease, lease_of
from runs.locks import locked_runs
from runs.models import Agent, Checkpoint, Continuation, Decision, Fact, HandBack, Hold, Permit, Run
from runs.revocation import StillMayDecide, judge_permit
from runs.run_status import store
from runs.states import ContinuationKind, ContinuationStatus, HoldKind, RunStatus
from runs.timeline import note
from runs.use_cases.revoke_approvals import revoke_lost_answers
from runs.verification import find_changed, is_what_was_said

SYSTEM = "system:leases"


@dataclass(frozen=True, kw_only=True)
class Claimed:
    """Everything a worker needs to go on: nothing else has to be asked for before the next boundary."""

    run: Run
    lease: Lease
    continuation: Continuation
    checkpoint: Checkpoint
    answers: list[Decision]
    overtaken: list[Decision]
    facts: list[Fact]
    effects: list[Effect]
    has_more_effects: bool  # than are listed: the others are read page by page
    permits: list[Permit]
    compensated_since: list[str]
    undone: list[Effect]  # what is to be taken back, newest first

    @property
    def changed(self) -> list[Fact]:
        """The facts that differ from what the agent relied on."""
        return [fact for fact in self.facts if differs(fact)]


def any_ready(*, agent: Agent, code_version: str = "", code_versions: set[str]) -> bool:
    """Tell, in one statement and without a transaction, whether a claim may find something: a hint for those who wait."""
    versions = _versions(code_versions)
    return bool(_any_ready(len(versions)).all(agent=agent.pk, own=code_version, **versions))


def claim_continuations(
    *,
    agent: Agent,
    code_version: str = "",
    code_versions: set[str],
    most: int,
    lease_seconds: int,
    request_key: str,
    still_may_decide: StillMayDecide,
) -> list[Claimed]:
    """Claim up to ``most`` runs, the most urgent first, one transaction each; the same request again gets the same.

    ``code_version`` is the worker's own, ``code_versions`` are all whose checkpoints it reads. What a worker of its own
    version handed back, since it cannot read it, is not offered to it again.
    """
    claimed = _claimed_before(agent, request_key, still_may_decide) if request_key else []
    fruitless = 0
    while (not claimed or len(claimed) < most) and fruitless < MOST_FRUITLESS:
        outcome = _claim_next(
            agent=agent,
            code_version=code_version,
            code_versions=code_versions,
            lease_seconds=lease_seconds,
            request_key=request_key,
            still_may_decide=still_may_decide,
        )
        if outcome is None:
            break
        if isinstance(outcome, Claimed):
            claimed.append(outcome)
        else:
            fruitless += 1
    return claimed


#: How many runs one call finds without claiming: a run whose continuation cannot be claimed may be found each time.
MOST_FRUITLESS = 100


@use_case
def claim_one(
    *,
    agent: Agent,
    continuation_id: str,
    code_version: str = "",
    code_versions: set[str],
    lease_seconds: int,
    request_key: str,
    still_may_decide: StillMayDecide,
) -> Claimed | NotReady:
    """Claim a named continuation. Raises ``AlreadyClaimed``, ``NotReady``, ``IncompatibleVersion``, ``NotFound``."""
    run = locked_runs().filter(agent=agent, continuations__public_id=continuation_id).first()
    if run is None:
        raise NotFound
    now = clock.now()
    continuation = Continuation.objects.select_related("checkpoint__file").get(public_id=continuation_id)
    if continuation.status == ContinuationStatus.LEASED and request_key and continuation.request_key == request_key:
        return _claimed_again(run, continuation, still_may_decide, now=now)
    if continuation.status in {ContinuationStatus.LEASED, ContinuationStatus.ACKNOWLEDGED}:
        raise AlreadyClaimed
    compensating = continuation.kind == ContinuationKind.COMPENSATE
    if run.ending and not compensating:
        raise NotReady(f"The run is {run.status}.", status=run.status)  # never will be: say so, not "not yet"
    if continuation.status != ContinuationStatus.READY or continuation.not_before > now:
        raise NotReady(status=continuation.status)
    if not compensating:
        _refuse_unfit(run, code_version, code_versions)
    refuse_halted(agent.pk)
    if not _may_be_claimed(run, compensating=compensating):
        raise NotReady(f"The run is {run.status}.", status=run.status)
    outcome = _claim(
        run,
        continuation,
        code_version=code_version,
        lease_seconds=lease_seconds,
        request_key=request_key,
        still_may_decide=still_may_decide,
        now=now,
    )
    return outcome or NotReady("The answer has to be given again, or its facts checked again.")


@use_case
def _claim_next(
    *,
    agent: Agent,
    code_version: str,
    code_versions: set[str],
    lease_seconds: int,
    request_key: str,
    still_may_decide: StillMayDecide,
) -> Claimed | bool | None:
    """Claim the next run that is ready; ``False`` when it turned out not to be, ``None`` when there is none.

    Workers that come at once each skip the runs that others hold locked, and read the continuation only afterwards:
    what the first statement saw of it may be old by then.
    """
    assert_open()
    versions = _versions(code_versions)
    run = _next_to_lock(len(versions)).first(agent=agent.pk, own=code_version, **versions)
    if run is None or is_halted(agent.pk):
        return None
    now = clock.now()
    continuation = _READY.first(run=run.pk, now=now)
    if continuation is None:
        return False
    compensating = continuation.kind == ContinuationKind.COMPENSATE
    if not _may_be_claimed(run, compensating=compensating):
        return False
    if not compensating and was_handed_back_by(run, code_version):
        return False  # between the statement's look and its lock: what other tables said then is old
    continuation.run, continuation.agent = run, agent
    claimed = _claim(
        run,
        continuation,
        code_version=code_version,
        lease_seconds=lease_seconds,
        request_key=request_key,
        still_may_decide=still_may_decide,
        now=now,
    )
    return claimed or False


_READY = Compiled(
    lambda: Continuation.objects.filter(
        run=prepared_queries.number("run"),
        status=ContinuationStatus.READY,
        not_before__lte=prepared_queries.moment("now"),
    ).select_related("checkpoint__file")
)


def _versions(code_versions: set[str]) -> dict[str, str]:
    return {f"version_{place}": version for place, version in enumerate(sorted({*code_versions, ""}))}


def _ready(count: int) -> Q:
    """Return the filter for runs that a worker of so many code versions might claim, as they stand when it is asked."""
    open_to_all = Q(
        continuations__agent=prepared_queries.number("agent"),
        continuations__status=ContinuationStatus.READY,
        continuations__not_before__lte=prepared_queries.Present(),
    )
    versions = [prepared_queries.text(f"version_{place}") for place in range(count)]
    # What takes back is one exact call after the other: any worker can, whatever version wrote the checkpoint.
    compensating = Q(status=RunStatus.CANCELLING, open_holds=0)
    stranded = Exists(Hold.objects.filter(run=OuterRef("pk"), kind=HoldKind.STRANDED, lifted_at=None))
    may_go_on = Q(status=RunStatus.READY) | (Q(status=RunStatus.BLOCKED, open_holds=1) & Q(stranded))
    unread = HandBack.objects.filter(run=OuterRef("pk"), over_at=None, code_version=prepared_queries.text("own"))
    reads_it = Q(code_version__in=versions) & (Q(handed_back=0) | ~Q(Exists(unread)))
    return open_to_all & ((may_go_on & reads_it) | compensating)


@functools.cache
def _any_ready(count: int) -> Compiled[tuple[int]]:
    return Compiled(lambda: Run.objects.filter(_ready(count)).values_list("pk")[:1])


@functools.cache
def _next_to_lock(count: int) -> Compiled[Run]:
    in_order = ("-continuations__priority", "continuations__not_before", "continuations__id")
    return Compiled(lambda: locked_runs(skip_locked=True).filter(_ready(count)).order_by(*in_order)[:1])


def _claim(
    run: Run,
    continuation: Continuation,
    *,
    code_version: str,
    lease_seconds: int,
    request_key: str,
    still_may_decide: StillMayDecide,
    now: datetime,
) -> Claimed | None:
    """Lease the ready continuation of the locked run, or send it back and return ``None``."""
    if continuation.checked_until is not None and continuation.checked_until <= now:
        recheck(run, continuation, now=now)
        store(run, now)
        return None
    consulted, said = effect_queries.consult(run.public_id), _said_for(run, continuation)
    try:
        reopened, said = revoke_lost_answers(
            run,
            said,
            checkpoint_id=continuation.checkpoint_id,
            consulted=consulted,
            still_may_decide=still_may_decide,
            now=now,
        )
    except RecordChanged as refusal:  # a policy: nothing was written yet
        if continuation.kind == ContinuationKind.RESUME:
            _hold_spoilt(run, continuation, refusal.extra["record"], now=now)
            return None
        reopened = False
    if reopened:
        store(run, now)
        return None
    if continuation.kind == ContinuationKind.RESUME:
        changed = _find_changed(run, continuation.checkpoint, said)
        if changed:
            _hold_spoilt(run, continuation, changed, now=now)
            return None
    lift_holds(run, HoldKind.STRANDED, by="system:claim", now=now)
    grant_lease(run, seconds=lease_seconds, now=now)
    run.attempts += 1
    lease_continuation(run, continuation, request_key=request_key, code_version=code_version, now=now)
    if any(decision.delivered_at is None for decision in [*said.accepted, *said.votes]):
        record_delivery(run, now=now)
    note(
        run,
        "continuation.claimed",
        actor=by_agent(continuation.agent.slug),
        at=now,
        continuation=continuation.public_id,
        fence=run.fence,
        attempt=run.attempts,
        code_version=code_version,
    )
    store(run, now)
    return _what_is_claimed(run, continuation, said, consulted, now=now)


def _find_changed(run: Run, checkpoint: Checkpoint, said: Said) -> str:
    """Compare the checkpoint, and the decisions given at it, with their digests and the events that recorded them."""
    if not is_intact(checkpoint):
        return checkpoint.covered_as
    given = [decision for decision in said.accepted if decision.interrupt.checkpoint_id == checkpoint.pk]
    changed = next((decision for decision in given if not is_what_was_said(decision)), None)
    return changed.covered_as if changed else find_changed(run, [checkpoint, *given])


def _hold_spoilt(run: Run, continuation: Continuation, changed: str, *, now: datetime) -> None:
    """No worker gets a state that is not what was approved from: its owner restores the row, or starts the run again."""
    number, owner_id = continuation.checkpoint.number, continuation.agent.owner_id
    reason = f"Checkpoint {number} was changed after it was written, or its storage is damaged."
    if not changed.startswith("checkpoint:"):
        reason = f"A record that checkpoint {number} is resumed with was changed after it was written: {changed}."
    open_hold(run, HoldKind.CHECKPOINT_SPOILT, owner_id=owner_id, reason=reason, now=now)
    note(run, "hold.opened", actor=SYSTEM, at=now, kind=HoldKind.CHECKPOINT_SPOILT, reason=reason)
    recheck(run, continuation, now=now)
    store(run, now)


def _claimed_before(agent: Agent, request_key: str, still_may_decide: StillMayDecide) -> list[Claimed]:
    """Return what this very request claimed already, when its reply was lost."""
    leased = Continuation.objects.filter(agent=agent, request_key=request_key, status=ContinuationStatus.LEASED)
    claimed, now = [], clock.now()
    for continuation in leased.select_related("run", "checkpoint__file").order_by("id"):
        run = continuation.run
        if run.lease_until and run.lease_until > now and run.fence == continuation.fence:
            claimed.append(_claimed_again(run, continuation, still_may_decide, now=now))
    return claimed


def _claimed_again(run: Run, continuation: Continuation, still_may_decide: StillMayDecide, *, now: datetime) -> Claimed:
    """Return what the same request claimed before, without permits that expired or lost their authorisation since."""
    said, consulted = _said_for(run, continuation), effect_queries.consult(run.public_id)
    lost = [permit.decision.interrupt_id for permit in said.permits if judge_permit(permit, still_may_decide)]
    claimed = _what_is_claimed(run, continuation, said, consulted, now=now)
    return replace(claimed, permits=[it for it in claimed.permits if it.decision.interrupt_id not in lost])


def _what_is_claimed(
    run: Run, continuation: Continuation, said: Said, consulted: Consulted, *, now: datetime
) -> Claimed:
    checkpoint = continuation.checkpoint
    return Claimed(
        run=run,
        lease=lease_of(run),
        continuation=continuation,
        checkpoint=checkpoint,
        answers=said.accepted,
        overtaken=said.overtaken,
        facts=_FACTS.all(checkpoint=checkpoint.pk),
        effects=consulted.effects,
        has_more_effects=not consulted.is_whole,
        permits=[permit for permit in said.permits if permit.valid_until > now],
        compensated_since=_compensated_since(run, checkpoint),
        undone=due_now(run),
    )


def _said_for(run: Run, continuation: Continuation) -> Said:
    """Return what people said at the boundary; whoever takes back goes on with no answer."""
    if continuation.kind == ContinuationKind.COMPENSATE:
        return Said(accepted=[], overtaken=[], votes=[])
    return decisions_at(run, continuation.checkpoint_id)


def _compensated_since(run: Run, checkpoint: Checkpoint) -> list[str]:
    """Return what was taken back since the state was taken that a restart goes on from: it does not know."""
    return [] if checkpoint.taken_at is None else effect_queries.compensated_since(run.public_id, checkpoint.taken_at)


_FACTS = Compiled(lambda: Fact.objects.filter(checkpoint=prepared_queries.number("checkpoint")).order_by("id"))


def _refuse_unfit(run: Run, code_version: str, code_versions: set[str]) -> None:
    needed = run.code_version
    if needed and needed not in code_versions:
        raise IncompatibleVersion(f"The run waits for code version {needed}.", code_version=needed)
    if was_handed_back_by(run, code_version):
        who = f"A worker of code version {code_version}" if code_version else "A worker that names no code version"
        raise IncompatibleVersion(f"{who} could not read it, and handed it back.", code_version=needed)


def _may_be_claimed(run: Run, *, compensating: bool) -> bool:
    if compensating:
        return run.status == RunStatus.CANCELLING and not run.open_holds
    return run.status in {RunStatus.READY, RunStatus.BLOCKED} and not is_held_by_others(run, HoldKind.STRANDED)
