"""Stored counts: the insights and metrics made of them are those counted from the rows, also after changes."""

from __future__ import annotations

import dataclasses
import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from ledger import clock
from reviewqueue import permissions
from reviewqueue.models import RollupCell, RollupDueDay, RollupState, RollupTotal
from reviewqueue.queries.insights import Insights, read_insights
from reviewqueue.queries.insights.scope import insights_scope
from reviewqueue.rollups import cells, counting
from runs.models import Run
from runs.use_cases.complete_run import complete_run
from tests import builders
from tests.reviewqueue.a_busy_quarter import SEEN, Quarter, a_reader
from tests.webhooks.webhook_builders import publish

pytestmark = pytest.mark.django_db


@pytest.fixture
def quarter(monkeypatch: pytest.MonkeyPatch) -> Quarter:
    rows = Quarter(now=clock.now(), decided=90, open_waits=20, days=20)
    rows.write()
    monkeypatch.setattr(clock, "now", lambda: rows.now)
    return rows


def read(reader: User, now: datetime, **asked: Any) -> Insights:
    return read_insights(insights_scope(visible=permissions.read_scope(reader), now=now, **({"days": 30} | asked)))


def count() -> None:
    RollupState.objects.update(next_at=clock.now())
    counting.count_rollups(seconds=60)


def read_both(reader: User, now: datetime, **asked: Any) -> tuple[Insights, Insights]:
    """Return the figures from stored counts, and those counted from the rows."""
    stored = read(reader, now, **asked)
    state = RollupState.objects.get()
    RollupState.objects.all().delete()
    counted = read(reader, now, **asked)
    state.save()
    return stored, counted


def without_time(found: Insights) -> Insights:
    return dataclasses.replace(found, counted_at=found.scope.now)


def test_figures_of_stored_counts_are_those_of_the_rows(quarter: Quarter):
    reader = a_reader()
    Run.objects.filter(pk__in=Run.objects.filter(interrupts__queue__slug="payroll").values("pk")[:7]).update(
        initiator=reader
    )
    owner = builders.a_person("owner@example.org", "mail-desk-owners", "agent-owners")
    operator = builders.a_person("operator@example.org", permissions.OPERATORS)
    count()
    assert RollupCell.objects.exists()
    for person in (reader, owner, operator, builders.a_person("nobody@example.org")):
        for days in (7, 30):
            stored, counted = read_both(person, quarter.now, days=days)
            assert without_time(stored) == without_time(counted)
    for asked in ({"queue": SEEN[0]}, {"queue": "payroll"}, {"agent": "mail-desk"}, {"queue": "unknown"}):
        stored, counted = read_both(reader, quarter.now, **asked)
        figures = {"queues": frozenset(), "agents": frozenset()}
        assert dataclasses.replace(without_time(stored), **figures) == dataclasses.replace(
            without_time(counted), **figures
        )


def test_a_day_is_counted_again_after_an_event_of_its_runs():
    ana = builders.a_reviewer()
    interrupt = builders.a_waiting_interrupt()
    publish()
    count()
    assert read(ana, clock.now()).waiting.ages.number == 1
    builders.decide(interrupt, ana)
    [claimed] = builders.claim(interrupt.agent)
    publish()
    count()
    found = read(ana, clock.now())
    assert (found.waiting.ages.number, found.ended.total, found.resumed.number("running")) == (0, 1, 1)
    complete_run(
        agent=interrupt.agent, run_id=claimed.run.public_id, token=claimed.lease.token, result={"order": "4711"}
    )
    publish()
    count()
    stored, counted = read_both(ana, clock.now())
    assert stored.resumed.number("completed") == counted.resumed.number("completed") == 1
    totals = {(total.measure, total.part): total.number for total in RollupTotal.objects.exclude(number=0)}
    assert totals == {
        (cells.CLOSED, "answered 0 0"): 1,
        (cells.DECISIONS, "accepted "): 1,
        (cells.ENDED, "completed"): 1,
    }


def test_figures_say_how_old_they_are_and_old_ones_are_counted_again():
    ana = builders.a_reviewer()
    builders.a_waiting_interrupt()
    count()
    counted_at = RollupState.objects.get().counted_at
    builders.a_waiting_interrupt()
    found = read(ana, clock.now())
    assert (found.waiting.ages.number, found.counted_at) == (1, counted_at)
    later = clock.now() + cells.STALE_AFTER + timedelta(seconds=1)
    assert read(ana, later).waiting.ages.number == 2


def test_a_day_that_changes_while_it_is_counted_stays_due():
    builders.a_waiting_interrupt()
    count()
    publish()
    counting._mark_changed_days()
    due = RollupDueDay.objects.get()
    counted = cells.count_day_cells(counting._rows_of(due.day))
    counting._mark_due([due.day])
    counting._store_day(due, counted)
    assert RollupDueDay.objects.filter(day=due.day).exists()


def test_without_time_the_rest_is_counted_the_next_time(quarter: Quarter):
    reader = a_reader()
    counting.count_rollups(seconds=0)
    left = RollupDueDay.objects.filter(is_new=True).count()
    assert left > 10
    stored, counted = read_both(reader, quarter.now)
    assert without_time(stored) == without_time(counted)
    assert not counting.is_count_due()
    count()
    assert not RollupDueDay.objects.exists()
    RollupState.objects.update(next_at=quarter.now)
    assert counting.is_count_due()


def test_metrics_of_stored_counts_are_those_of_the_rows(quarter: Quarter, client: Client):
    counted = client.get("/metrics").text
    count()
    stored = client.get("/metrics").text.replace("reviewqueue_counts_age_seconds 0.0\n", "")
    assert stored == counted


def test_a_scrape_and_a_page_read_no_table_that_grows(quarter: Quarter, client: Client):
    count()
    reader = a_reader()
    with CaptureQueriesContext(connection) as scraped:
        client.get("/metrics")
    client.force_login(reader)
    with CaptureQueriesContext(connection) as page:
        assert client.get("/insights").status_code == 200
    assert len(scraped) <= 15
    found = [query["sql"] for query in [*scraped, *page] if re.search(r'FROM "(runs|ledger)_', query["sql"])]
    # Bounded: one row, overdue requests up to a limit, claims of the reader's queues by their index, and small tables.
    bounded = re.compile(r"LIMIT|claimed_until|\"runs_(agent|queue|feed)\"")
    assert [sql for sql in found if not bounded.search(sql)] == []
