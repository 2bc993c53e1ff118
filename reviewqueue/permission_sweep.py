"""Permission sweep: record that claims, assignments and votes ended because their person may no longer decide.

They stop counting at once without it: every act checks them again (``authority``). The sweep makes the end permanent
and visible: a permission that is restored later restores none of them, and the leads read it in the timeline, the
inbox and on the request.
"""

from __future__ import annotations

from datetime import datetime

from django.db.models import Exists, Q

from ledger import clock
from ledger.transactions import use_case
from reviewqueue import permissions
from runs import reviewer_claims
from runs.decisions import list_counted_votes, move_decisions
from runs.locks import lock_interrupt, lock_run_of_interrupt
from runs.models import Assignee, Interrupt, Run
from runs.run_status import save_status
from runs.states import InterruptStatus
from runs.sweep import not_deferred, sweep_rows
from runs.timeline import record_event

SYSTEM = "system:authority"


def has_lost_permissions() -> bool:
    """Tell whether an open request has a claim, an assignment or a vote of a person who may no longer decide."""
    return Interrupt.objects.filter(_due(before=clock.now())).exists()


def release_lost_permissions(*, limit: int) -> int:
    """Release what rests on lost permissions, on up to ``limit`` open requests, and return how many there were."""
    due = _due(before=clock.now())
    return sweep_rows(Interrupt.objects.all(), due, "deadline", lambda pk: release_lost(interrupt_pk=pk), limit=limit)


def _due(*, before: datetime) -> Q:
    claimed = permissions.lost_claims() & Q(claimed_until__gt=before)
    lost = claimed | Q(Exists(permissions.lost_assignments())) | (Q(quorum__gt=1) & Q(Exists(permissions.lost_votes())))
    return Q(status=InterruptStatus.WAITING) & not_deferred(before) & lost


@use_case
def release_lost(*, interrupt_pk: int) -> bool:
    """Release the lost claim, assignments and votes of one open request; each is one event of its run."""
    run = lock_run_of_interrupt(interrupt_pk, skip_locked=True)
    if run is None:
        return False
    interrupt = lock_interrupt(run, interrupt_pk)
    if interrupt.status != InterruptStatus.WAITING:
        return False
    now = clock.now()
    released = [
        _release_claim(run, interrupt, now=now),
        _release_assignments(run, interrupt, now=now),
        _revoke_votes(run, interrupt, now=now),
    ]
    if any(released):
        save_status(run, now)
    return any(released)


def _release_claim(run: Run, interrupt: Interrupt, *, now: datetime) -> bool:
    holder = interrupt.claimed_by
    is_live = holder is not None and interrupt.claimed_until is not None and interrupt.claimed_until > now
    if holder is None or not is_live or permissions.claimant_may_decide(interrupt):
        return False
    reviewer_claims.release_claim(interrupt)
    _note(run, "interrupt.released", interrupt, people=[holder.get_username()], now=now)
    return True


def _release_assignments(run: Run, interrupt: Interrupt, *, now: datetime) -> bool:
    assigned = Assignee.objects.filter(interrupt=interrupt, released_at=None).select_related("person").order_by("id")
    able = set(permissions.deciders_of(interrupt.queue).values_list("pk", flat=True))
    lost = [assignee for assignee in assigned if assignee.person_id not in able]
    if not lost:
        return False
    Assignee.objects.filter(pk__in=[assignee.pk for assignee in lost]).update(released_at=now)
    _note(run, "interrupt.unassigned", interrupt, people=[it.person.get_username() for it in lost], now=now)
    return True


def _revoke_votes(run: Run, interrupt: Interrupt, *, now: datetime) -> bool:
    votes = list(list_counted_votes(interrupt)) if interrupt.quorum > 1 else []
    for vote in votes:
        vote.interrupt = interrupt
    lost = [vote for vote in votes if not permissions.vote_still_counts(vote)]
    if not lost:
        return False
    move_decisions(interrupt, "revoke", only=lost)
    people = [vote.by.get_username() for vote in lost if vote.by is not None]
    ids = [vote.public_id for vote in lost]
    _note(run, "vote.revoked", interrupt, people=people, decision=ids[0], decisions=ids, now=now)
    return True


def _note(run: Run, move: str, interrupt: Interrupt, *, now: datetime, **refs: object) -> None:
    record_event(run, move, actor=SYSTEM, at=now, interrupt=interrupt.public_id, **refs)
