"""Kills run on PostgreSQL, with the races' rules and figures."""

from __future__ import annotations

from tests.races.conftest import on_postgresql_only, pytest_terminal_summary

__all__ = ["on_postgresql_only", "pytest_terminal_summary"]
