"""The API reference lists every operation, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from tests.attack.routes import routes_of_the_map

DOCS = Path(__file__).parents[2] / "docs"
#: Described on pages of their own.
ELSEWHERE = {"webhooks.md": ("webhooks", "deliveries", "events"), "operations.md": ("insights",)}
#: Only there to refuse an effect whose key has a slash.
NOT_AN_ADDRESS = ("PUT", "runs/{id}/effects/{key}/outcome")


def named(pattern: str) -> str:
    """Return an address as the docs write it."""
    inside = re.sub(r"<(?:\w+:)?(\w+)>", lambda found: "{" + found[1].removeprefix("run_") + "}", pattern)
    return re.sub(r"\{\w+_id\}", "{id}", inside)


def test_every_address_is_in_the_reference():
    elsewhere = tuple(first for firsts in ELSEWHERE.values() for first in firsts)
    there = {(method, named(pattern)) for method, pattern in routes_of_the_map() if not pattern.startswith(elsewhere)}
    lines = (DOCS / "api.md").read_text().splitlines()
    rows = [re.match(r"\| `(GET|POST|PUT|PATCH|DELETE) ([^`]+)` \|", line) for line in lines]
    assert {(row[1], row[2]) for row in rows if row} == there - {NOT_AN_ADDRESS}
