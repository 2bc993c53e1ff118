"""Lists of a person who sees more agents than one statement can name."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import pytest
from django.db import connection

from ledger import clock
from reviewqueue import permissions
from reviewqueue.queries import ordered_branches
from reviewqueue.queries.inbox import CLOSED_STATUSES, View, count_ended, list_ended_keys
from reviewqueue.queries.visible_ranges import list_run_keys
from runs.models import Agent, Interrupt, Run
from tests import builders

pytestmark = pytest.mark.django_db


@pytest.fixture
def few_parameters() -> Iterator[None]:
    """SQLite allows 999 parameters in a statement, as its older versions do."""
    if connection.vendor != "sqlite":
        yield
        return
    connection.ensure_connection()
    before = connection.connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 999)
    yield
    connection.connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, before)


def test_lists_over_many_agents_are_ordered_and_need_no_statement_too_long(few_parameters: None, monkeypatch):
    operator = builders.a_person("operator@example.org", permissions.OPERATORS)
    first, second = builders.an_agent("first"), builders.an_agent("second")
    for number in range(120):
        Agent.objects.create(slug=f"agent-{number}", owner=first.owner)
    for place in range(6):
        waiting = builders.a_waiting_interrupt(started=builders.a_running_run((first, second)[place % 2]))
        Interrupt.objects.filter(pk=waiting.pk).update(status="expired", closed_at=clock.now())
    scope = permissions.read_scope(operator)
    assert scope.everything
    assert Agent.objects.count() > ordered_branches.MAX_BRANCHES

    assert list_run_keys(scope, before=None, limit=4) == list(
        Run.objects.order_by("-id").values_list("pk", flat=True)[:4]
    )
    closed = Interrupt.objects.order_by("-closed_at", "-id").values_list("pk", flat=True)
    statuses = CLOSED_STATUSES[View.EXPIRED]
    assert list_ended_keys(scope, statuses, limit=4) == list(closed[:4])
    assert count_ended(scope, statuses, limit=50) == 6
    assert count_ended(scope, statuses, limit=5) == 5
