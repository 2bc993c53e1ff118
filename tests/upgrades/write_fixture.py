"""Writes a database of this version with work under way, as SQLite's SQL: `python3 manage.py release --fixture`.

The requests, runs and leases are those that `afterwards.py` continues after the upgrade. Deadlines, leases and ends are far
ahead, so that they are still open whenever the upgrade is tried.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

FAR_AHEAD = datetime(2199, 1, 1, tzinfo=UTC)
#: Signs the leases of the workers in the fixture; the tests of the upgrade use it too.
KEY = "an-upgrade-keeps-what-waits-and-this-key-signed-it-2026"


def main(target: Path) -> None:
    """Migrate an empty database, fill it in a process of its own, and write its dump to ``target``."""
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / "fixture.sqlite3"
        own = {"DATABASE_URL": f"sqlite:///{database}", "SECRET_KEY": KEY, "VAR_DIR": folder}
        environment = (
            os.environ | own | {"DJANGO_SETTINGS_MODULE": "reviewqueue.settings", "REVIEWQUEUE_MODE": "production"}
        )
        subprocess.run([sys.executable, "-m", "django", "migrate", "--verbosity", "0"], env=environment, check=True)
        subprocess.run([sys.executable, "-m", "tests.upgrades.write_fixture"], env=environment, check=True)
        with closing(sqlite3.connect(database)) as written:
            target.write_text("".join(f"{line}\n" for line in written.iterdump()))


def fill() -> None:
    """Write the rows into the database of DATABASE_URL."""
    import django

    django.setup()
    from ledger import clock
    from runs.models import Interrupt, Run
    from runs.use_cases import expire
    from tests import builders
    from tests.runs import test_compensation as compensations
    from tests.runs.leased_run_builders import a_leased_run, begin

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
    assert expire.expire_due_interrupts(limit=10) == 2

    blocked = a_leased_run(key="blocked")
    begin(blocked)
    Run.objects.filter(pk=blocked.pk).update(lease_until=clock.now())
    assert expire.release_lapsed_leases(limit=10) == 1

    ending = compensations.a_cancelled_run("first", "second", "third", key="taking back")
    claimed = compensations.claim(ending)
    compensations.take_back(claimed, "third")
    compensations.begin_undo(claimed, "second")

    Interrupt.objects.filter(status="waiting").update(deadline=FAR_AHEAD)
    overdue = builders.a_waiting_interrupt(resumes, started=builders.a_running_run(key="overdue"))
    builders.move_deadline(overdue, clock.now())
    Run.objects.exclude(lease_until=None).update(lease_until=FAR_AHEAD)
    Run.objects.exclude(expires_at=None).update(expires_at=FAR_AHEAD)


if __name__ == "__main__":
    if sys.argv[1:]:
        main(Path(sys.argv[1]))
    else:
        fill()
