"""Wrote `before_0023.sql`, and is kept to show what is in it. It runs with the code of its release, not with today's:

    git worktree add --detach ../before 18550ed && cd ../before
    export DATABASE_URL=sqlite:////tmp/before.sqlite3 SECRET_KEY=... (KEY of test_upgrades.py) REVIEWQUEUE_ENVIRONMENT=own
    export DJANGO_SETTINGS_MODULE=reviewqueue.settings PYTHONPATH=.
    python manage.py migrate && python .../tests/upgrades/write_before_0023.py > .../tests/upgrades/before_0023.sql

Deadlines, leases and ends are put far ahead, so that the waits are still open whenever the upgrade is tried.
"""

from __future__ import annotations

import sqlite3
import sys
from datetime import UTC, datetime

import django

django.setup()

from django.conf import settings  # noqa: E402  Django first
from django.db import connection  # noqa: E402

from ledger import clock  # noqa: E402
from runs import expiry  # noqa: E402
from runs.models import Interrupt, Run  # noqa: E402
from tests import builders  # noqa: E402
from tests.runs import test_compensation as undoing  # noqa: E402
from tests.runs.acting_builders import a_leased_run, begin  # noqa: E402

FAR_AHEAD = datetime(2199, 1, 1, tzinfo=UTC)


def main() -> None:
    ana = builders.a_reviewer()
    builders.a_waiting_interrupt(started=builders.a_running_run(key="open"))
    two_open = builders.suspend_run(
        builders.a_running_run(key="two"), builders.a_wait("a"), builders.an_input_wait("b")
    )
    builders.decide(two_open.interrupts[0], ana)
    decided = builders.a_waiting_interrupt(started=builders.a_running_run(key="decided"))
    builders.decide(decided, ana)

    resumes = builders.a_wait(wish={"on_expiry": {"do": "resume"}})
    for interrupt in (
        builders.a_waiting_interrupt(started=builders.a_running_run(key="expired")),
        builders.a_waiting_interrupt(resumes, started=builders.a_running_run(key="resumed")),
    ):
        builders.move_deadline(interrupt, clock.now())
    assert expiry.expire_due_interrupts(limit=10) == 2

    blocked = a_leased_run(key="blocked")
    begin(blocked)
    Run.objects.filter(pk=blocked.pk).update(lease_until=clock.now())
    assert expiry.release_lapsed_leases(limit=10) == 1

    ending = undoing.a_cancelled_run("first", "second", "third", key="taking back")
    claimed = undoing.claim(ending)
    undoing.take_back(claimed, "third")
    undoing.begin_undo(claimed, "second")

    Interrupt.objects.filter(status="waiting").update(deadline=FAR_AHEAD)
    overdue = builders.a_waiting_interrupt(resumes, started=builders.a_running_run(key="overdue"))
    builders.move_deadline(overdue, clock.now())
    Run.objects.exclude(lease_until=None).update(lease_until=FAR_AHEAD)
    Run.objects.exclude(expires_at=None).update(expires_at=FAR_AHEAD)
    connection.close()
    for line in sqlite3.connect(settings.DATABASES["default"]["NAME"]).iterdump():
        sys.stdout.write(f"{line}\n")


main()
