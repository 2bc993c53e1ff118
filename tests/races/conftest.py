"""Races run on PostgreSQL only, because SQLite has one writer at a time and cannot show them."""

from __future__ import annotations

import pytest
from django.conf import settings

from tests import figures


@pytest.fixture(autouse=True)
def on_postgresql_only() -> None:
    if "postgresql" not in settings.DATABASES["default"]["ENGINE"]:
        pytest.skip("SQLite cannot show a race; run with --on postgresql")


@pytest.fixture(autouse=True)
def count_guards_taken_out(request: pytest.FixtureRequest) -> None:
    """A race or a kill without its guard is a planted fault that must show itself."""
    taken_out = request.node.name.startswith(("test_without_", "test_looking_before_inserting_"))
    if taken_out and request.node.get_closest_marker("proves"):
        figures.count("guards taken out of races and kills", "each missed at once")
