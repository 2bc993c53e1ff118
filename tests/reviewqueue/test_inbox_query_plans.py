"""Query plans of the inbox on PostgreSQL: index positions, and no more rows than are counted. Plans, not times."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from ledger import clock
from reviewqueue.queries import inbox, inbox_counts
from reviewqueue.queries.inbox import View
from runs.models import Interrupt
from tests import builders

pytestmark = [pytest.mark.postgresql, pytest.mark.django_db]


@pytest.fixture(autouse=True)
def as_with_many_rows() -> None:
    """Force index plans, because so few rows would be read in full."""
    if connection.vendor != "postgresql":
        pytest.skip("plans of PostgreSQL; run with --on postgresql")
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("SET LOCAL enable_bitmapscan = off")


def two_interrupts() -> tuple[User, Interrupt]:
    """A reviewer, and the second of two interrupts."""
    ana = builders.a_reviewer()
    builders.a_waiting_interrupt()
    return ana, builders.a_waiting_interrupt()


def plans(ask: Callable[[], Any], *, of: str) -> str:
    """Return the plans of the statements of ``ask`` that contain these texts."""
    with CaptureQueriesContext(connection) as asked:
        ask()
    statements = [query["sql"] for query in asked.captured_queries if of in query["sql"]]
    assert statements, [query["sql"][:300] for query in asked.captured_queries]
    with connection.cursor() as cursor:
        lines = []
        for statement in statements:
            cursor.execute(f"EXPLAIN {statement}")
            lines += [line for (line,) in cursor.fetchall()]
    return "\n".join(lines)


def test_the_next_page_begins_at_its_place_in_the_index():
    ana, interrupt = two_interrupts()
    after = inbox.format_position(interrupt, View.OPEN)
    plan = plans(lambda: inbox.list_requests(ana, view=View.OPEN, after=after, now=clock.now()), of="ORDER BY")
    assert "the_inbox_in_its_order" in plan
    assert "Index Cond: (ROW(risk_rank, deadline, id) > ROW(" in plan


def test_what_a_live_list_is_compared_by_is_read_from_the_index_and_no_further_than_the_page():
    ana, _ = two_interrupts()
    plan = plans(lambda: inbox.get_list_fingerprint(ana, view=View.OPEN, now=clock.now()), of="timeline_seq")
    assert "the_inbox_in_its_order" in plan
    assert "Limit" in plan


def test_the_neighbours_are_read_from_the_place_between_them():
    ana, interrupt = two_interrupts()
    plan = plans(lambda: inbox.get_neighbours(ana, interrupt, view=View.OPEN, now=clock.now()), of="ORDER BY")
    assert "Index Cond: (ROW(risk_rank, deadline, id) > ROW(" in plan
    assert "Index Cond: (ROW(risk_rank, deadline, id) < ROW(" in plan


def test_no_more_waits_are_read_for_the_counts_than_are_counted():
    ana, _ = two_interrupts()
    plan = plans(lambda: inbox_counts.count_requests(ana, now=clock.now()), of="AS first")
    assert "Limit" in plan
    assert "Join" not in plan, f"the first ones are looked for among all the others:\n{plan}"


def test_a_persons_own_requests_are_one_list_of_ids_and_no_condition_on_every_row():
    ana, _ = two_interrupts()
    plan = plans(lambda: inbox.list_requests(ana, view=View.MINE, now=clock.now()), of="ORDER BY")
    assert "Append" in plan
    assert "SubPlan 4" not in plan, f"a fourth condition is evaluated for every row:\n{plan}"
