"""Fixtures of webhook tests."""

from __future__ import annotations

import pytest

from tests.webhooks.receiver import receiver


@pytest.fixture
def at_home():
    """A receiver that accepts everything by default."""
    with receiver() as server:
        yield server
