"""Review Queue: people, agents and HTTP around `runs` and `ledger`; settings and processes live here too."""

from __future__ import annotations

__version__ = "0.1.0"
