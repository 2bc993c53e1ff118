"""Holds: named reasons why a run cannot be claimed, each with an owner and a way to lift it.

Writes ``Hold`` and ``Run.open_holds``. The functions work on a locked run; the caller records the event and saves the
run.
"""

from __future__ import annotations

from datetime import datetime

from ledger.transactions import assert_in_transaction
from runs.models import Hold, Run
from runs.states import HoldKind

#: The end of a run does not lift these: the outcome of the effect still needs to be resolved.
OUTLIVES_RUN = frozenset({HoldKind.UNKNOWN_EFFECT, HoldKind.CONTRADICTION})


def open_hold(run: Run, kind: HoldKind, subject: str = "", *, owner_id: int, reason: str, now: datetime) -> bool:
    """Open a hold, and return False if it is open already. ``subject``: the effect's key or the fact's name."""
    assert_in_transaction()
    _, opened = Hold.objects.get_or_create(
        run=run,
        kind=kind,
        subject=subject,
        lifted_at=None,
        defaults={"owner_id": owner_id, "opened_at": now, "reason": reason[:300]},
    )
    if opened:
        run.open_holds += 1
    return opened


def lift_holds(run: Run, *kinds: HoldKind, subject: str | None = None, by: str, now: datetime) -> int:
    """Lift the open holds of these kinds, or of one subject, and return their number."""
    assert_in_transaction()
    if not run.open_holds:
        return 0
    held = Hold.objects.filter(run=run, kind__in=kinds, lifted_at=None)
    if subject is not None:
        held = held.filter(subject=subject)
    lifted = held.update(lifted_at=now, lifted_by=by[:300])
    run.open_holds -= lifted
    return lifted


def has_other_holds(run: Run, kind: HoldKind) -> bool:
    """Tell whether a hold of another kind is open."""
    return bool(run.open_holds) and Hold.objects.filter(run=run, lifted_at=None).exclude(kind=kind).exists()


def lift_holds_at_end(run: Run, *, by: str, now: datetime) -> int:
    """Lift all holds but those in ``OUTLIVES_RUN``."""
    return lift_holds(run, *(kind for kind in HoldKind if kind not in OUTLIVES_RUN), by=by, now=now)
