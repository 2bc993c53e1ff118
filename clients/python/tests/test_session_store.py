"""What a reviewer sees of a conversation that changed since the last decision."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from reviewqueue_client.adapters import session_store


def test_a_long_change_says_how_much_is_not_shown():
    context = [{"role": "user", "content": "Buy"}, {"role": "user", "content": "x" * 3000}]
    run: Any = SimpleNamespace(
        overtaken={"order": 1}, changed=[{"name": session_store.FACT, "value": session_store.fact_of(context[:1])}]
    )
    shown = session_store.drift_of(run, context)
    assert shown.endswith("x\n(and 1006 more characters)")
    assert session_store.drift_of(run, [*context[:1], {"role": "user", "content": "short"}]).endswith("user: short")
