"""The only outbound HTTP of the product."""

from __future__ import annotations

from ledger.transactions import assert_none_open
from runs.checking import FactToFetch, Found


def fetch_fact(fact: FactToFetch) -> Found:
    """Ask a connection for the present value of a fact."""
    assert_none_open()
    return Found(trouble="no outbound calls yet")
