"""What tests of webhooks share: a receiver, endpoints, and a way to let time pass."""

from __future__ import annotations

import pytest

from tests.webhooks.receiver import receiver


@pytest.fixture
def at_home():
    """A receiver that takes everything until it is told otherwise."""
    with receiver() as server:
        yield server
