"""After a backup was restored: nothing goes on by itself, since the world has moved on and the ledger has not.

Every lease is over, and no token, fence or feed number of the lost time is given a second time (``LEAP``). Each open
run is held (``restored``) until its owner has compared it with the world; what was under way at the backup is unknown.
Called by `manage.py restored` alone, before any worker runs; calling it again holds what was let go meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import F

from ledger import clock, effect_queries, in_flight
from ledger.transactions import use_case
from runs.continuations import open_continuation, recheck
from runs.holds import open_hold
from runs.locks import locked_runs
from runs.models import Feed, Run
from runs.run_status import store
from runs.states import FINAL, ContinuationStatus, HoldKind
from runs.timeline import note
from runs.use_cases.end_run import finish_ending, hold_for_effect
from runs.use_cases.release_lease import lose_lease

SYSTEM = "system:restored"
#: How far fences and feeds jump: further than they can have come between a backup and its restoration.
LEAP = 1_000_000
REASON = "A backup was restored: what this run did after it was taken is not known here."


@dataclass(frozen=True, kw_only=True)
class Restored:
    """What was held."""

    runs: int
    leases: int
    effects: int


def hold_after_restore() -> Restored:
    """Hold every open run, one transaction each, then let ended runs and feeds leap."""
    pks = list(Run.objects.exclude(status__in=FINAL).order_by("pk").values_list("pk", flat=True))
    held = [_hold_run(run_pk=pk) for pk in pks]
    _leap()
    return Restored(
        runs=sum(one.runs for one in held),
        leases=sum(one.leases for one in held),
        effects=sum(one.effects for one in held),
    )


@use_case
def _hold_run(*, run_pk: int) -> Restored:
    run = locked_runs().select_related("agent").get(pk=run_pk)
    now = clock.now()
    leased = run.lease_until is not None
    under_way = [
        effect.key for effect in effect_queries.intended_effects(run.public_id)
    ]  # below, each of them is doubted
    if leased:
        lose_lease(run, now=now)
    run.fence += LEAP
    for effect in in_flight.mark_all_unknown(scope=run.public_id, now=now, by=SYSTEM):
        hold_for_effect(run, effect.key, owner_id=effect.owner_id, now=now)
    if not run.ended_at:
        open_hold(run, HoldKind.RESTORED, owner_id=run.agent.owner_id, reason=REASON, now=now)
        finish_ending(run, actor=SYSTEM, now=now)
        continuation = open_continuation(run)
        if continuation is not None and continuation.status == ContinuationStatus.READY:
            recheck(run, continuation, now=now)
    note(run, "run.restored", actor=SYSTEM, at=now, in_doubt=under_way)
    store(run, now)
    return Restored(runs=int(not run.ended_at), leases=int(leased), effects=len(under_way))


@use_case
def _leap() -> None:
    """Ended runs can be restarted: their old fences must not come again either. Nor may a feed's numbers."""
    Run.objects.filter(status__in=FINAL).update(fence=F("fence") + LEAP)
    Feed.objects.update(last_seq=F("last_seq") + LEAP)
