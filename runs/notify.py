"""Notifications to waiting requests, on PostgreSQL by NOTIFY: an agent may have a claimable run or an answer.

A notification is sent with the commit. It is only a hint: waiting requests also poll, and decide by what the rows
contain. SQLite has no notifications, so requests only poll.
"""

from __future__ import annotations

from django.db import connection

from ledger.transactions import assert_in_transaction

CHANNEL = "reviewqueue"


def notify_agent(agent_id: int) -> None:
    """Notify the waiting requests of one agent; repeated calls in a transaction send one notification."""
    assert_in_transaction()
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_notify(%s, %s)", [CHANNEL, str(agent_id)])
