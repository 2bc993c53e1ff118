"""Generic plans on PostgreSQL, which it makes once for all values: they must find rows by an index, also a partial one."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection

from ledger.prepared_queries import PreparedQuery, _numbered, _Text
from runs.use_cases import start_run

pytestmark = [pytest.mark.postgresql, pytest.mark.django_db]


def generic_plan(query: PreparedQuery[Any]) -> str:
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute(f"EXPLAIN (GENERIC_PLAN) {_numbered(_Text(query._build()).sql)}")
        return "\n".join(row[0] for row in cursor.fetchall())


def test_an_ask_finds_an_earlier_run_by_its_key():
    assert "one_run_per_key_of_an_agent" in generic_plan(start_run._ask_basis)
