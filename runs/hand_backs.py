"""Hand-backs: the code versions that returned a run because they cannot read its checkpoint.

Writes ``HandBack`` and ``Run.handed_back``, under the run's lock. The run is not offered to these versions again. A new
checkpoint, a restart, the end of the run and its owner end the hand-backs; the rows stay.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from ledger.transactions import assert_in_transaction
from runs.models import HandBack, Run


def record_hand_back(run: Run, *, code_version: str, reason: str, detail: str, now: datetime) -> int:
    """Record that this version cannot read the run's checkpoint, and return the number of such versions."""
    assert_in_transaction()
    _, kept = HandBack.objects.get_or_create(
        run=run,
        code_version=code_version,
        over_at=None,
        defaults={"reason": reason, "detail": detail[:300], "at": now},
    )
    run.handed_back += kept
    return run.handed_back


def end_hand_backs(run: Run, *, now: datetime) -> int:
    """End the hand-backs of the run, and return their number."""
    assert_in_transaction()
    if not run.handed_back:
        return 0
    run.handed_back = 0
    return HandBack.objects.filter(run=run, over_at=None).update(over_at=now)


def was_handed_back_by(run: Run, code_version: str) -> bool:
    """Tell whether this version handed back the run's current checkpoint."""
    return run.handed_back > 0 and HandBack.objects.filter(run=run, over_at=None, code_version=code_version).exists()


def versions_that_handed_back(runs: Iterable[Run]) -> dict[int, list[str]]:
    """Return the versions that cannot read each run, by the run's primary key, oldest first."""
    asked = [run.pk for run in runs if run.handed_back]
    found: dict[int, list[str]] = {}
    if asked:
        current = HandBack.objects.filter(run__in=asked, over_at=None).order_by("pk")
        for run_pk, code_version in current.values_list("run", "code_version"):
            found.setdefault(run_pk, []).append(code_version)
    return found
