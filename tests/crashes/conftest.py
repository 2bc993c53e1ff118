"""Kills run on PostgreSQL, as races do."""

from __future__ import annotations

from tests.races.conftest import on_postgresql_only

__all__ = ["on_postgresql_only"]
