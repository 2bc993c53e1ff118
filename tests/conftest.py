"""What every test gets: nothing yet but a place for it."""

from __future__ import annotations
