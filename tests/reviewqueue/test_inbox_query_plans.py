"""Query plans of the inbox on PostgreSQL: index positions, and no more rows than are counted. Plans, not times."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from ledger import clock
from reviewqueue.api.pagination import page
from reviewqueue.operations.metrics import Metrics
from reviewqueue.permissions import read_scope
from reviewqueue.queries import inbox, inbox_counts
from reviewqueue.queries.inbox import View
from reviewqueue.queries.inbox_filters import InboxFilters
from reviewqueue.queries.visible_ranges import interrupt_ranges, list_run_keys
from runs.models import Interrupt
from runs.use_cases import expire
from tests import builders

pytestmark = [pytest.mark.postgresql, pytest.mark.django_db]


@pytest.fixture(autouse=True)
def as_with_many_rows() -> None:
    """Force index plans, because so few rows would be read in full. What earlier tests left in files and statistics
    would decide between indexes of equal cost, so both begin empty.
    """
    if connection.vendor != "postgresql":
        pytest.skip("plans of PostgreSQL; run with --on postgresql")
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute("TRUNCATE runs_interrupt CASCADE")
        cursor.execute("DELETE FROM pg_statistic WHERE starelid = 'runs_interrupt'::regclass")
        cursor.execute("SET LOCAL session_replication_role = origin")
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("SET LOCAL enable_bitmapscan = off")


def two_interrupts() -> tuple[User, Interrupt]:
    """A reviewer, and the second of two interrupts."""
    ana = builders.a_reviewer()
    builders.a_waiting_interrupt()
    return ana, builders.a_waiting_interrupt()


def plans(ask: Callable[[], Any], *, of: str, executed: bool = False) -> str:
    """Return the plans of the statements of ``ask`` that contain these texts.

    ``executed``: the subplans of a recursive term are in the plan only after its first execution.
    """
    with CaptureQueriesContext(connection) as asked:
        ask()
    statements = [query["sql"] for query in asked.captured_queries if of in query["sql"]]
    assert statements, [query["sql"][:300] for query in asked.captured_queries]
    with connection.cursor() as cursor:
        lines = []
        for statement in statements:
            cursor.execute(f"EXPLAIN {'ANALYZE' if executed else ''} {statement}")
            lines += [line for (line,) in cursor.fetchall()]
    return "\n".join(lines)


def groups_read(plan: str) -> list[str]:
    """Return the lines that read the index of groups. Each must begin at a group."""
    return [line for line in plan.splitlines() if "open_waits_by_group" in line]


def test_the_next_page_begins_at_its_place_in_each_group():
    ana, interrupt = two_interrupts()
    after = inbox.format_position(interrupt, View.OPEN)
    plan = plans(
        lambda: inbox.list_requests(ana, view=View.OPEN, after=after, now=clock.now()), of="UNION ALL SELECT *"
    )
    assert groups_read(plan)
    assert "(ROW(risk_rank, deadline, id) > ROW(" in plan
    assert "Filter: (ROW" not in plan


@pytest.mark.parametrize(
    "filters",
    [
        InboxFilters(),
        InboxFilters(risk="medium"),
        InboxFilters(reason="approval.action"),
        InboxFilters(agent="purchase-requests"),
        InboxFilters(queue="engineering"),
    ],
    ids=["all", "risk", "reason", "agent", "queue"],
)
def test_each_group_that_passes_the_filters_is_one_range_of_the_index(filters):
    ana, _ = two_interrupts()
    plan = plans(lambda: inbox.list_requests(ana, view=View.OPEN, filters=filters, now=clock.now()), of="LIMIT 51")
    assert groups_read(plan)
    assert "Index Cond: ((queue_id = " in plan
    assert re.search(r"queue_id = '?\d+.*agent_id = '?\d+.*reason\)?.* = .*risk_rank = ", plan), plan
    assert "SubPlan" not in plan, f"permissions are evaluated for every row:\n{plan}"


def test_the_groups_are_found_by_jumps_in_the_index():
    ana, _ = two_interrupts()
    plan = plans(lambda: inbox.count_decidable_requests(ana, now=clock.now()), of="RECURSIVE")
    assert len(groups_read(plan)) >= 5
    for line in plan.splitlines():
        assert "Scan on runs_interrupt" not in line or "Subquery Scan on" in line, plan
    assert re.search(r"Index Cond: \(ROW\(.*queue_id, .*agent_id, .*> ROW\(", plan), plan


def test_what_a_live_list_is_compared_by_is_read_from_the_index_and_no_further_than_the_page():
    ana, _ = two_interrupts()
    plan = plans(lambda: inbox.get_list_fingerprint(ana, view=View.OPEN, now=clock.now()), of="timeline_seq")
    assert groups_read(plan)
    assert "Limit" in plan


def test_the_neighbours_are_read_from_the_place_between_them():
    ana, interrupt = two_interrupts()
    plan = plans(lambda: inbox.get_neighbours(ana, interrupt, view=View.OPEN, now=clock.now()), of="LIMIT 1) AS branch")
    assert "(ROW(risk_rank, deadline, id) > ROW(" in plan
    assert "(ROW(risk_rank, deadline, id) < ROW(" in plan
    assert "Filter: (ROW" not in plan


def test_no_more_waits_are_read_for_the_counts_than_are_counted():
    ana, _ = two_interrupts()
    plan = plans(lambda: inbox_counts.count_requests(ana, now=clock.now()), of="RECURSIVE")
    assert "Limit" in plan
    assert re.search(r"Index Only Scan using open_waits_by_group(_and_age)? on runs_interrupt i", plan)


def test_what_a_person_can_decide_is_read_from_the_ranges_of_their_queues_in_order():
    ana, interrupt = two_interrupts()
    after = inbox.format_position(interrupt, View.DECIDE)
    plan = plans(lambda: inbox.list_requests(ana, view=View.DECIDE, after=after, now=clock.now()), of="LIMIT 51")
    assert groups_read(plan)
    assert "Index Cond: ((queue_id = " in plan
    assert "(ROW(risk_rank, deadline, id) > ROW(" in plan
    # Only the rows of the page are sorted, where the groups are merged; below the limit their order is the index's.
    assert plan.count("Sort Key: runs_interrupt") <= 1, plan
    assert re.search(
        r"Limit [^\n]*\n(?:\s+(?:->  Nested Loop|Join Filter)[^\n]*\n)+\s+->  Index Scan using open_waits", plan
    )


def test_no_more_waits_are_looked_at_to_count_what_a_person_can_decide():
    ana, _ = two_interrupts()
    plan = plans(lambda: inbox.count_decidable_requests(ana, now=clock.now()), of="RECURSIVE")
    assert "Subquery Scan on runs_interrupt" in plan, plan
    assert re.search(r"Limit .*\n\s+->  Index Scan using open_waits_by_group on runs_interrupt i", plan), plan


@pytest.mark.parametrize("view", [View.DECIDED, View.EXPIRED])
def test_a_list_of_closed_requests_is_one_range_for_each_queue_and_status(view):
    ana, _ = two_interrupts()
    plan = plans(lambda: inbox.list_requests(ana, view=view, now=clock.now()), of="closed_at")
    ranges = [line for line in plan.splitlines() if "ended_waits_of_a_queue" in line]
    assert len(ranges) == len(inbox.CLOSED_STATUSES[view])
    assert "Index Cond: ((queue_id = " in plan


def test_the_api_lists_interrupts_by_ranges_of_queue_and_status():
    ana, _ = two_interrupts()
    ranges = interrupt_ranges(read_scope(ana), ["waiting", "answered"])
    plan = plans(lambda: page(Interrupt.objects.all(), {}, ranges=ranges), of="UNION ALL SELECT *")
    assert len([line for line in plan.splitlines() if "waits_of_a_queue_by_status" in line]) == 2


def test_a_persons_own_requests_are_one_list_of_ids_and_no_condition_on_every_row():
    ana, _ = two_interrupts()
    plan = plans(lambda: inbox.list_requests(ana, view=View.MINE, now=clock.now()), of="ORDER BY")
    assert "Append" in plan
    assert "SubPlan 4" not in plan, f"a fourth condition is evaluated for every row:\n{plan}"


def test_runs_with_a_status_behind_a_queue_are_jumps_in_two_indexes():
    ana, interrupt = two_interrupts()
    scope, older = read_scope(ana), interrupt.run_id + 1
    plan = plans(
        lambda: list_run_keys(scope, status="waiting", before=older, limit=51), of="RECURSIVE step", executed=True
    )
    jumps = [line for line in plan.splitlines() if "Scan" in line and "runs_interrupt" in line]
    assert len(jumps) >= 2, plan
    assert all("runs_behind_a_queue" in line for line in jumps), plan
    had = [line for line in plan.splitlines() if "Scan" in line and "on runs_run r " in line]
    assert had, plan
    assert all("runs_of_an_agent_by_status" in line for line in had), plan
    assert "Index Cond: ((queue_id = " in plan
    assert "Filter: (r.status" not in plan, plan
    asking = plans(lambda: list_run_keys(scope, before=None, limit=51), of="RECURSIVE asking", executed=True)
    assert "Seq Scan on runs_interrupt" not in asking, asking
    assert re.search(r"Index Cond: \(\(queue_id = asking\S*\.queue_id\) AND \(agent_id > asking", asking), asking


def test_a_sweep_and_the_metrics_find_due_requests_in_the_order_of_their_deadlines():
    """Without an order, PostgreSQL estimates that many requests are due, and reads all open ones to find none."""
    two_interrupts()
    for ask in (expire.has_due_rows, lambda: list(Metrics().collect())):
        plan = plans(ask, of='"runs_interrupt"."deadline" <=')
        assert "using waits_by_deadline on runs_interrupt" in plan, plan
        assert "Sort" not in plan, plan
    assert "waits_by_their_reminder" in plans(expire.has_due_rows, of='"runs_interrupt"."remind_at" <=')


@pytest.mark.parametrize("sort", ["deadline", "oldest", "newest"])
def test_each_order_reads_an_index_from_its_place(sort):
    ana, interrupt = two_interrupts()
    after, filters = inbox.format_position(interrupt, View.OPEN), InboxFilters(sort=sort)
    for view in (View.OPEN, View.DECIDE):
        plan = plans(
            lambda view=view: inbox.list_requests(ana, view=view, filters=filters, after=after, now=clock.now()),
            of="LIMIT 51",
        )
        index = "open_waits_by_group " if sort == "deadline" else "open_waits_by_group_and_age"
        read = [line for line in plan.splitlines() if index in line]
        assert read, plan
        assert "Sort Key" not in plan or "Merge" in plan or sort == "deadline", plan
