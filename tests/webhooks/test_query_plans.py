"""The looks of each second stay cheap however long the log is: each goes by an index, on both databases."""

from __future__ import annotations

import pytest
from django.db import connection

from ledger import clock
from reviewqueue.webhooks import deliveries
from reviewqueue.webhooks.models import Delivery, DeliveryStatus
from runs import event_feed
from runs.models import Event
from tests import builders
from tests.webhooks.webhook_builders import an_endpoint

pytestmark = pytest.mark.django_db

ROWS = 3000


@pytest.fixture
def a_long_log():
    agent = builders.an_agent()
    endpoint = an_endpoint("http://127.0.0.1:8009/hooks", "run.started").endpoint
    run, now = builders.a_running_run().run, clock.now()
    told = {
        "run": run,
        "agent": agent,
        "type": "run.started",
        "actor": "x",
        "at": now,
        "refs": {},
        "prev": "",
        "digest": "",
    }
    events = [Event(seq=n + 10, announced_at=now, announced_seq=n + 1, **told) for n in range(ROWS)]
    Event.objects.bulk_create(events)
    Event.objects.filter(announced_at=None).update(announced_at=now)
    sent = {"endpoint": endpoint, "type": "x", "body": "", "give_up_at": now, "created_at": now, "ended_at": now}
    pks = Event.objects.filter(seq__gte=10).values_list("pk", flat=True)
    delivered = DeliveryStatus.DELIVERED
    Delivery.objects.bulk_create(
        Delivery(public_id=f"dlv_{pk}", event_id=pk, status=delivered, **sent) for pk in list(pks)
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    return agent


def plans(captured) -> list[str]:
    """Return how the database goes about each look that was captured."""
    found = []
    for query in captured.captured_queries:
        if query["sql"].startswith("SELECT") and ("runs_event" in query["sql"] or "_delivery" in query["sql"]):
            with connection.cursor() as cursor:
                explain = "EXPLAIN QUERY PLAN " if connection.vendor == "sqlite" else "EXPLAIN "
                cursor.execute(explain + query["sql"])
                found.append("\n".join(str(row[-1]) for row in cursor.fetchall()))
    return found


@pytest.mark.parametrize(
    "look",
    [
        lambda _: event_feed.any_event_to_number(),
        lambda _: event_feed.agents_with_unnumbered_events(),
        lambda agent: list(event_feed.events_after(agent_id=agent.pk, after=ROWS - 100)[:50]),
        lambda _: deliveries.anything_to_deliver(),
        lambda _: deliveries.due_messages(limit=16),
        lambda _: deliveries.give_up_overdue(limit=200),
        lambda _: deliveries.delete_old_deliveries(limit=200),
    ],
    ids=["news", "agents", "feed", "due", "earliest", "overdue", "old"],
)
def test_a_look_goes_by_an_index(a_long_log, look, django_assert_max_num_queries):
    with django_assert_max_num_queries(10) as captured:
        look(a_long_log)
    shown = plans(captured)
    assert shown
    for plan in shown:
        for line in plan.splitlines():
            whole_table = "SCAN runs_event" in line or "SCAN reviewqueue_delivery" in line
            assert not whole_table or "USING" in line, plan
            assert "Seq Scan on runs_event" not in line, plan
            assert "Seq Scan on reviewqueue_delivery" not in line, plan
