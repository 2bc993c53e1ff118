"""Kill tests run on PostgreSQL, like races."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest
from django.core.management import call_command
from django.test import TransactionTestCase

from tests.races.conftest import count_guards_taken_out, on_postgresql_only

__all__ = ["count_guards_taken_out", "emptied_at_the_end", "on_postgresql_only"]


@pytest.fixture(scope="module")
def emptied_at_the_end(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """Empty the database once after a module whose scenes clean up before themselves, not after each test."""
    with mock.patch.object(TransactionTestCase, "_fixture_teardown", return_value=None):
        yield
    with django_db_blocker.unblock():
        call_command("flush", verbosity=0, interactive=False)
