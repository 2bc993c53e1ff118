"""Work of people, workers and sweeps after an upgrade, on DATABASE_URL; prints the results as JSON.

A process of its own, since the suite's connection is to the suite's database. `test_upgrades.py` runs and judges it.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import django

django.setup()

from django.contrib.auth.models import User  # noqa: E402  Django first

from ledger import tokens  # noqa: E402
from ledger.models import Effect  # noqa: E402
from reviewqueue import permissions, tasks  # noqa: E402
from reviewqueue.operations.doctor import row_consistency  # noqa: E402
from runs.models import Interrupt, Run  # noqa: E402
from runs.use_cases import reconcile_outcomes, report_effect  # noqa: E402
from runs.use_cases.claim_continuation import ClaimedRun  # noqa: E402
from runs.use_cases.complete_run import complete_run  # noqa: E402
from tests import builders  # noqa: E402
from tests.runs import test_compensation as undoing  # noqa: E402


def the_run(key: str) -> Run:
    return Run.objects.select_related("agent").get(key=key)


def stands(key: str) -> str:
    return the_run(key).status


def decide(key: str, wait: str = "order", **said: Any) -> str:
    interrupt = Interrupt.objects.get(run__key=key, key=wait)
    ana = User.objects.get(username="ana@example.org")
    return str(builders.decide(interrupt, ana, version=interrupt.state_version, **said).decision.status)


def finish(key: str) -> list[Any]:
    """Claim the run, perform what its decisions allow, complete it; return the verdicts that the worker got."""
    run = the_run(key)
    [continuation] = run.continuations.filter(status="ready")
    claimed: ClaimedRun = builders.claim_by_id(run.agent, continuation.public_id)
    for answer in claimed.answers:
        permit = getattr(answer, "permit", None)
        if permit is not None:
            act(claimed, permit.public_id)
    complete_run(agent=run.agent, run_id=run.public_id, token=claimed.lease.token, result=None)
    return sorted(answer.verdict for answer in claimed.answers)


def act(claimed: ClaimedRun, permit: str) -> None:
    words = {"agent": claimed.run.agent, "run_id": claimed.run.public_id, "key": "order:PR-4711"}
    begun = builders.begin_effect(
        still_may_decide=permissions.still_may_decide,
        token=claimed.lease.token,
        permit=permit,
        **builders.CALL,
        **words,
    )
    report_effect.report_effect(attempt_token=begun.attempt_token, status="applied", **words)


def go_on_taking_back(key: str) -> dict[str, str]:
    """The worker that compensated before the upgrade continues with its lease."""
    run = the_run(key)
    undoing.report_undo(run, "second")
    token = tokens.make_token("lse", run.fence, run.public_id)
    undo = undoing.undo_key(run, "first")
    words = {"agent": run.agent, "run_id": run.public_id, "key": undo, "name": "cancel_purchase_order"}
    begun = builders.begin_effect(
        still_may_decide=permissions.still_may_decide, token=token, arguments={"of": "first"}, **words
    )
    undoing.report_undo(run, "first", attempt_token=begun.attempt_token)
    return undoing.statuses(run)


def settle(key: str) -> None:
    effect = Effect.objects.get(scope=the_run(key).public_id)
    owner = builders.a_person("owner@example.org", "purchasing-owners")
    reconcile_outcomes.resolve_unknown_outcome(
        effect_id=effect.pk, outcome="applied", person=owner, reason="It is in the books."
    )


def wrong_rows() -> list[str]:
    """Return inconsistent runs, broken chains included: rows of the old release must pass today's checks."""
    return [
        found.words
        for found in (*row_consistency.inconsistent_runs(newest=None), *row_consistency.dangling_references())
    ]


def main() -> None:
    told: dict[str, Any] = {"before": {key: stands(key) for key in KEYS}}
    told["wrong rows before"] = wrong_rows()
    tasks.sweep()
    told["open"] = [decide("open"), finish("open")]
    told["two"] = [decide("two", "b", verdict="answer", input={"certificate_no": "C-7"}), finish("two")]
    for key in ("decided", "resumed", "overdue"):
        told[key] = finish(key)
    settle("blocked")
    told["taking back"] = go_on_taking_back("taking back")
    tasks.sweep()
    told["wrong rows after"] = wrong_rows()
    told["after"] = {key: stands(key) for key in KEYS}
    sys.stdout.write(json.dumps(told))


KEYS = ["open", "two", "decided", "expired", "resumed", "overdue", "blocked", "taking back"]

if __name__ == "__main__":
    main()
