"""Scenes of stored counts: the first count, a worker's turn, days that are due, and what is open now."""

from __future__ import annotations

from datetime import timedelta

from ledger import clock
from reviewqueue.models import RollupDueDay
from reviewqueue.rollups import cells, counting
from runs.models import Interrupt
from tests import builders
from tests.crashes.use_cases import Act, verb
from tests.webhooks.webhook_builders import publish


def a_first_count() -> Interrupt:
    interrupt = builders.a_waiting_interrupt()
    publish()
    counting._start(now=clock.now())
    return interrupt


@verb("reviewqueue.rollups.counting._start")
def the_first_count_marks_every_day() -> Act:
    builders.a_waiting_interrupt()
    publish()
    return lambda: counting._start(now=clock.now())


@verb("reviewqueue.rollups.counting._take_turn")
def a_worker_takes_the_turn_to_count() -> Act:
    a_first_count()
    return counting._take_turn


@verb("reviewqueue.rollups.counting._mark_days_of_agent")
def new_events_mark_their_days() -> Act:
    agent = a_first_count().agent_id
    builders.a_waiting_interrupt()
    publish()
    return lambda: counting._mark_days_of_agent(agent)


@verb("reviewqueue.rollups.counting._store_day")
def a_counted_day_is_stored() -> Act:
    a_first_count()
    due = RollupDueDay.objects.latest("day")
    counted = cells.count_day_cells(counting._rows_of(due.day))
    return lambda: counting._store_day(due, counted)


@verb("reviewqueue.rollups.counting._store_present")
def what_is_open_now_is_stored() -> Act:
    a_first_count()
    now = clock.now()
    counted = counting.count_present(now=now)
    return lambda: counting._store_present(counted, now=now)


@verb("reviewqueue.rollups.counting._finish")
def a_turn_to_count_ends() -> Act:
    a_first_count()
    now = clock.now()
    return lambda: counting._finish(numbered_until=now, failed=(), took=timedelta(0))
