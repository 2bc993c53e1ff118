"""Faults are planted in processes that leave nothing in the database, so it is emptied once, at the end of the module."""

from __future__ import annotations

from tests.crashes.conftest import emptied_at_the_end

__all__ = ["emptied_at_the_end"]
