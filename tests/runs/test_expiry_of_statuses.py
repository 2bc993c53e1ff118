"""The policies of a run's last requests say how long it can stay paused, on hold or in the check of its facts."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import transaction

from ledger import clock
from runs.holds import open_hold
from runs.locks import lock_run
from runs.models import Run
from runs.run_status import save_status
from runs.states import HoldKind
from runs.use_cases import expire
from runs.use_cases.control_run import pause_run
from tests import builders

pytestmark = pytest.mark.django_db

TIMES = {
    "paused": timedelta(hours=2),
    "blocked": timedelta(hours=3),
    "revalidating": timedelta(hours=5),
}


def pause(run: Run) -> None:
    pause_run(run_id=run.public_id, actor="person:olga", reason="", check=lambda _: None)


def a_run_in(status: str, *waits) -> Run:
    """Suspend a run with these requests, and bring it into the status."""
    run = builders.suspend_run(builders.a_running_run(), *waits).run
    if status == "paused":
        pause(run)
        return Run.objects.get(pk=run.pk)
    ana = builders.a_reviewer()
    for each in run.interrupts.order_by("id"):
        assert builders.decide(each, ana)
    if status == "blocked":
        with transaction.atomic():
            held = lock_run(run.pk)
            now = clock.now()
            open_hold(held, HoldKind.GAVE_UP, owner_id=held.agent.owner_id, reason="", now=now)
            save_status(held, now)
    return Run.objects.get(pk=run.pk)


@pytest.mark.parametrize("status", TIMES)
def test_the_policy_says_how_long_a_run_stays_in_a_status(status):
    builders.a_policy(**{f"expire_{name}": time for name, time in TIMES.items()})
    before = clock.now()
    run = a_run_in(status, builders.a_wait(facts=[builders.a_checked_fact()]))
    assert run.status == status
    assert before + TIMES[status] <= run.expires_at <= clock.now() + TIMES[status]
    Run.objects.filter(pk=run.pk).update(expires_at=clock.now())
    assert expire.expire_due_runs(limit=9) == 1
    assert Run.objects.get(pk=run.pk).ending == "expired" or Run.objects.get(pk=run.pk).status == "expired"


def test_of_several_requests_the_longest_time_counts():
    builders.a_policy(expire_paused=timedelta(hours=2))
    builders.a_policy("question", expire_paused=timedelta(days=20))
    run = a_run_in("paused", builders.a_wait(), builders.an_input_wait(reason="question"))
    assert run.expires_at > clock.now() + timedelta(days=19)


def test_a_run_without_requests_has_seven_days():
    run = builders.a_running_run(lease_seconds=0).run
    pause(run)
    run.refresh_from_db()
    assert timedelta(days=6) < run.expires_at - clock.now() <= timedelta(days=7)
