"""The one clock: the database's."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection, transaction

from ledger import clock

pytestmark = pytest.mark.django_db


def test_the_clock_is_in_utc():
    assert clock.now().utcoffset() == timedelta(0)


def test_the_clock_continues_inside_a_transaction():
    """PostgreSQL's now() is the start of the transaction, and Django's Now() that of the statement."""
    with transaction.atomic():
        first = clock.now()
        time.sleep(0.01)
        assert clock.now() >= first + timedelta(milliseconds=9)


@pytest.mark.postgresql
def test_the_clock_is_not_this_processs(monkeypatch):
    class OtherClock(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime(1999, 1, 1, tzinfo=UTC)

    monkeypatch.setattr(clock, "datetime", OtherClock)
    assert connection.vendor == "postgresql"
    assert clock.now().year > 2000
