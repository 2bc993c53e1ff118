"""Races run on PostgreSQL only: SQLite lets one writer in at a time, and so can't show them."""

from __future__ import annotations

import pytest
from django.conf import settings

from tests.races import figures


@pytest.fixture(autouse=True)
def on_postgresql_only() -> None:
    if "postgresql" not in settings.DATABASES["default"]["ENGINE"]:
        pytest.skip("SQLite cannot show a race; run with --on postgresql")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    counted = figures.lines()
    if counted:
        terminalreporter.section("races and kills")
        for line in counted:
            terminalreporter.write_line(line)
