"""Code versions that handed a run back because they cannot read its checkpoint.

Sole writer of ``HandBack`` and of ``Run.handed_back``, under the run's lock. The claim offers the run to none of them
again; ``returning`` counts them, and asks the owner when there are several. A new checkpoint, a restart, the end of the run
and an owner's word make them past; the rows are kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from ledger.transactions import assert_open
from runs.models import HandBack, Run


def keep_hand_back(run: Run, *, code_version: str, reason: str, detail: str, now: datetime) -> int:
    """Keep that this version cannot read the run's checkpoint, and return how many distinct ones cannot."""
    assert_open()
    _, kept = HandBack.objects.get_or_create(
        run=run,
        code_version=code_version,
        over_at=None,
        defaults={"reason": reason, "detail": detail[:300], "at": now},
    )
    run.handed_back += kept
    return run.handed_back


def forget_hand_backs(run: Run, *, now: datetime) -> int:
    """What could not be read is past, or an owner says that it can be read now; returns how many versions there were."""
    assert_open()
    if not run.handed_back:
        return 0
    run.handed_back = 0
    return HandBack.objects.filter(run=run, over_at=None).update(over_at=now)


def was_handed_back_by(run: Run, code_version: str) -> bool:
    """Tell whether this version cannot read the run's checkpoint."""
    return run.handed_back > 0 and HandBack.objects.filter(run=run, over_at=None, code_version=code_version).exists()


def handed_back_by(runs: Iterable[Run]) -> dict[int, list[str]]:
    """Return, by the runs' row ids, the versions that cannot read them, as they came."""
    asked = [run.pk for run in runs if run.handed_back]
    found: dict[int, list[str]] = {}
    if asked:
        standing = HandBack.objects.filter(run__in=asked, over_at=None).order_by("pk")
        for run_pk, code_version in standing.values_list("run", "code_version"):
            found.setdefault(run_pk, []).append(code_version)
    return found
