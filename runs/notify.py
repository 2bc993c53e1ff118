"""The bell: tells waiting web processes that something may have come for an agent's workers or for its questions.

Rung by ``standing.store`` inside the transaction, so that PostgreSQL lets it sound with the commit and not without. It is a
hint: whoever waits also looks by itself, and what counts is what the rows say. SQLite has none; there everybody looks.
"""

from __future__ import annotations

from django.db import connection

from ledger.transactions import assert_open

CHANNEL = "reviewqueue"


def ring(agent_id: int) -> None:
    """Ring for one agent. Several rings in one transaction sound once."""
    assert_open()
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_notify(%s, %s)", [CHANNEL, str(agent_id)])
