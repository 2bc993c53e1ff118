"""The API reference lists every operation, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from reviewqueue.api.openapi.document import operations
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


def rows_of_the_reference() -> dict[tuple[str, str], str]:
    """Return each row by its method and path."""
    lines = (DOCS / "api.md").read_text().splitlines()
    rows = [re.match(r"\| `(GET|POST|PUT|PATCH|DELETE) ([^`]+)` \| (.*)", line) for line in lines]
    return {(row[1], row[2]): row[3] for row in rows if row}


ELSEWHERE_BY_PATH = tuple(first for firsts in ELSEWHERE.values() for first in firsts)


def test_every_operation_is_in_the_reference():
    there = {
        (method, named(pattern)) for method, pattern in routes_of_the_map() if not pattern.startswith(ELSEWHERE_BY_PATH)
    }
    assert set(rows_of_the_reference()) == there - {NOT_AN_ADDRESS}


def test_every_member_of_a_request_is_in_the_row_of_its_operation():
    rows = rows_of_the_reference()
    of_an_interrupt = (DOCS / "api.md").read_text().partition("## Members of an interrupt")[2].partition("##")[0]
    for (method, path), operation in operations().items():
        if not isinstance(operation.request, type) or path.startswith(ELSEWHERE_BY_PATH):
            continue
        row = rows[method, re.sub(r"\{\w+_id\}", "{id}", path)]
        text = row + (of_an_interrupt if operation.id == "ask" else "")
        assert not [name for name in operation.request().fields if not re.search(rf"\b{name}\b", text)], operation.id
