"""Races run on PostgreSQL only: SQLite lets one writer in at a time, and so can't show them."""

from __future__ import annotations

import pytest
from django.conf import settings


@pytest.fixture(autouse=True)
def on_postgresql_only() -> None:
    if "postgresql" not in settings.DATABASES["default"]["ENGINE"]:
        pytest.skip("SQLite cannot show a race; run with --on postgresql")
