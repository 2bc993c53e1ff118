"""Hold every open run after a backup was restored.

The outside world has changed since the backup, and the ledger does not know how. Every lease ends, and no token, fence
or feed number issued after the backup is issued again (``FENCE_INCREASE``). Each open run gets a hold ``restored`` until its
owner has compared it with the outside world. Effects that were under way at the backup are unknown. Run this before any
worker starts; a second call holds again what was released meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import F

from ledger import clock, effect_queries, in_flight
from ledger.transactions import use_case
from runs.continuations import find_open_continuation, recheck_continuation
from runs.holds import open_hold
from runs.locks import locked_runs
from runs.models import Feed, Run
from runs.run_status import save_status
from runs.states import FINAL, ContinuationStatus, HoldKind
from runs.timeline import record_event
from runs.use_cases.end_run import continue_ending, hold_run_for_effect
from runs.use_cases.release_lease import expire_lease

SYSTEM = "system:restored"
#: Increase of fences and feed numbers: more than can be issued between a backup and its restore.
FENCE_INCREASE = 1_000_000
REASON = "A backup was restored. What this run did after the backup is unknown."


@dataclass(frozen=True, kw_only=True)
class RestoreCounts:
    """How many runs, leases and effects were held."""

    runs: int
    leases: int
    effects: int


def hold_after_restore() -> RestoreCounts:
    """Hold every open run in one transaction each, then increase the fences of ended runs and the feed numbers."""
    pks = list(Run.objects.exclude(status__in=FINAL).order_by("pk").values_list("pk", flat=True))
    held = [_hold_run(run_pk=pk) for pk in pks]
    _increase_fences_and_feeds()
    return RestoreCounts(
        runs=sum(counts.runs for counts in held),
        leases=sum(counts.leases for counts in held),
        effects=sum(counts.effects for counts in held),
    )


@use_case
def _hold_run(*, run_pk: int) -> RestoreCounts:
    run = locked_runs().select_related("agent").get(pk=run_pk)
    now = clock.now()
    leased = run.lease_until is not None
    under_way = [effect.key for effect in effect_queries.list_effects_in_flight(run.public_id)]  # marked unknown below
    if leased:
        expire_lease(run, now=now)
    run.fence += FENCE_INCREASE
    for effect in in_flight.mark_all_unknown(scope=run.public_id, now=now, by=SYSTEM):
        hold_run_for_effect(run, effect.key, owner_id=effect.owner_id, now=now)
    if not run.ended_at:
        open_hold(run, HoldKind.RESTORED, owner_id=run.agent.owner_id, reason=REASON, now=now)
        continue_ending(run, actor=SYSTEM, now=now)
        continuation = find_open_continuation(run)
        if continuation is not None and continuation.status == ContinuationStatus.READY:
            recheck_continuation(run, continuation, now=now)
    record_event(run, "run.restored", actor=SYSTEM, at=now, in_doubt=under_way)
    save_status(run, now)
    return RestoreCounts(runs=int(not run.ended_at), leases=int(leased), effects=len(under_way))


@use_case
def _increase_fences_and_feeds() -> None:
    """Increase the fences of ended runs, because they can be restarted, and the numbers of feeds."""
    Run.objects.filter(status__in=FINAL).update(fence=F("fence") + FENCE_INCREASE)
    Feed.objects.update(last_seq=F("last_seq") + FENCE_INCREASE)
