"""Stored counts: the insights and metrics made of them are those counted from the rows, also after changes."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection, models
from django.test import Client
from django.test.utils import CaptureQueriesContext

from ledger import clock
from reviewqueue import permissions
from reviewqueue.models import RollupCell, RollupCursor, RollupDueDay, RollupGroup, RollupState, RollupTotal
from reviewqueue.queries.insights import Insights, read_insights
from reviewqueue.queries.insights.scope import PERIODS, insights_scope
from reviewqueue.rollups import cells, counting
from runs.models import Event, Run
from runs.use_cases.complete_run import complete_run
from runs.use_cases.control_run import cancel_run, restart_run
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


def test_one_worker_counts_at_a_time(monkeypatch: pytest.MonkeyPatch):
    builders.a_waiting_interrupt()
    others: list[datetime | None] = []
    real = counting.count_present

    def during_the_count(*, now: datetime) -> list[cells.Cell]:
        assert not counting.is_count_due()
        if not others:
            others.append(None)
            counting.count_rollups(seconds=60)
            others.append(counting.counted_at())
        return real(now=now)

    monkeypatch.setattr(counting, "count_present", during_the_count)
    counting.count_rollups(seconds=60)
    assert others == [None, None]  # the second call returned without a count
    assert counting.counted_at() is not None


def test_a_count_that_fails_is_retried_later(monkeypatch: pytest.MonkeyPatch):
    def fail(**_: Any) -> None:
        raise ValueError

    with monkeypatch.context() as failing:
        failing.setattr(counting, "_finish", fail)
        with pytest.raises(ValueError):  # noqa: PT011
            counting.count_rollups(seconds=60)
    assert not counting.is_count_due()
    later = clock.now() + counting.TURN
    monkeypatch.setattr(clock, "now", lambda: later)
    assert counting.is_count_due()


def test_two_first_counts_make_one_row(monkeypatch: pytest.MonkeyPatch):
    counting._start(now=clock.now())
    with monkeypatch.context() as both:
        both.setattr(models.QuerySet, "exists", lambda _: False)  # as read before the other one committed
        counting._start(now=clock.now())
    assert RollupState.objects.count() == 1


def test_a_day_that_cannot_be_counted_stops_neither_the_others_nor_the_present(
    quarter: Quarter, monkeypatch: pytest.MonkeyPatch
):
    real, bad = cells.count_day_cells, quarter.now.astimezone(UTC).date() - timedelta(days=2)

    def count_day_cells(rows: cells.CountedRows) -> list[cells.Cell]:
        if rows.since.date() == bad:
            raise ValueError
        return real(rows)

    with monkeypatch.context() as failing:
        failing.setattr(cells, "count_day_cells", count_day_cells)
        count()
    assert list(RollupDueDay.objects.values_list("day", flat=True)) == [bad]
    assert counting.counted_at() == quarter.now
    assert not counting.is_count_due()
    count()
    assert not RollupDueDay.objects.exists()


def test_an_agent_whose_days_cannot_be_marked_stops_no_other(monkeypatch: pytest.MonkeyPatch):
    count()
    bad = builders.a_waiting_interrupt(started=builders.a_running_run(builders.an_agent("first-agent")))
    good = builders.a_waiting_interrupt(started=builders.a_running_run(builders.an_agent("second-agent")))
    publish()
    real: Callable[[int], None] = counting._mark_days_of_agent

    def mark(agent: int) -> None:
        if agent == bad.agent_id:
            raise ValueError
        real(agent)

    with monkeypatch.context() as failing:
        failing.setattr(counting, "_mark_days_of_agent", mark)
        count()
    assert set(RollupCursor.objects.values_list("agent", flat=True)) == {good.agent_id}
    left = Event.objects.filter(agent=bad.agent_id).order_by("announced_seq")[0]
    assert RollupState.objects.get().counted_at == left.at
    count()
    assert RollupState.objects.get().counted_at > left.at


def test_the_counts_are_as_old_as_the_first_event_without_a_number():
    count()
    interrupt = builders.a_waiting_interrupt()
    first = Event.objects.filter(run=interrupt.run).order_by("at")[0]
    count()
    assert RollupState.objects.get().counted_at == first.at
    publish()
    count()
    assert RollupState.objects.get().counted_at > first.at


def test_a_run_in_very_many_queues_is_counted():
    agent, queues = builders.an_agent(), ",".join(str(number) for number in range(100_000, 101_000))
    today = clock.now().date()
    for day in (today, today - timedelta(days=1)):
        counting._insert([cells.Cell(day, agent.pk, queues, cells.KEPT, "", 0, 3)])
    assert RollupGroup.objects.get().queues == queues
    limits = [getattr(field, "max_length", None) for field in RollupGroup._meta.get_fields() if field.name == "queues"]
    assert limits == [None]  # SQLite would store any length


@pytest.fixture
def one_instant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the clock, so that no midnight comes between an event and the check of its day."""
    now = clock.now()
    monkeypatch.setattr(clock, "now", lambda: now)


def long_ago() -> datetime:
    return clock.now() - timedelta(days=2 * max(PERIODS) + 10)


def due_days() -> set[date]:
    return set(RollupDueDay.objects.values_list("day", flat=True))


def totals() -> dict[tuple[str, str], int]:
    return {(total.measure, total.part): total.number for total in RollupTotal.objects.exclude(number=0)}


def test_an_event_marks_no_day_before_the_shown_ones(one_instant: None):
    assert timedelta(days=2 * max(PERIODS)) < counting.SHOWN
    ana, at = builders.a_reviewer(), long_ago()
    with builders.at_time(lambda: at):
        count()
        interrupt = builders.a_waiting_interrupt()
        builders.decide(interrupt, ana)
        publish()
        count()
    assert len(builders.claim(interrupt.agent)) == 1
    publish()
    counting._mark_changed_days()
    assert due_days() == {clock.now().date()}
    assert totals() == {(cells.CLOSED, "answered 0 0"): 1, (cells.DECISIONS, "accepted "): 1}


def test_totals_stay_right_if_an_old_decision_is_revoked(one_instant: None):
    ana, at = builders.a_reviewer(), long_ago()
    with builders.at_time(lambda: at):
        count()
        interrupt = builders.a_waiting_interrupt()
        builders.decide(interrupt, ana)
        publish()
        count()
    ana.groups.clear()
    assert builders.claim(interrupt.agent) == []
    publish()
    counting._mark_changed_days()
    assert due_days() == {at.date(), clock.now().date()}
    count()
    assert totals() == {(cells.DECISIONS, "revoked "): 1}


def test_totals_stay_right_if_a_run_is_restarted_long_after_its_end(monkeypatch: pytest.MonkeyPatch):
    owner, at = builders.a_person("own@example.org", "agent-owners"), long_ago()
    with monkeypatch.context() as past:
        past.setattr(clock, "now", lambda: at)
        count()
        run = builders.a_waiting_interrupt().run
        cancel_run(run_id=run.public_id, actor="person:own@example.org", reason="", check=lambda _: None)
        publish()
        count()
    assert totals()[cells.ENDED, "cancelled"] == 1
    restart_run(run_id=run.public_id, person=owner, reason="once more", check=lambda _: None)
    publish()
    count()
    assert totals() == {(cells.CLOSED, "cancelled 0 0"): 1}


def test_metrics_of_stored_counts_are_those_of_the_rows(quarter: Quarter, client: Client):
    counted = figures_of_rows(client)
    count()
    assert figures_of_rows(client) == counted


def figures_of_rows(client: Client) -> list[str]:
    """Return the lines of the scrape that are counted from rows; others are measured in the process at that time."""
    of_the_process = ("reviewqueue_http_", "reviewqueue_disk_", "reviewqueue_clock_", "reviewqueue_counts_age_")
    lines = client.get("/metrics").text.splitlines()
    return [line for line in lines if not line.startswith("#") and not line.startswith(of_the_process)]


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
