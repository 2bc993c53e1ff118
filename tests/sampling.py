"""Which tests the short run of the suite leaves out: ``manage.py test`` without ``--all``.

The short run covers the whole product: every test file that has a test outside of ``slow``, on both databases, races,
kills and the browser. It leaves out tests marked ``slow``, most cases of tests with many cases, and on PostgreSQL and in
the browser a share of the tests. What is kept depends on the seed and the names alone, so a run can be repeated.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests import figures

#: Set by ``tests/run.py`` for the parts of a short run: how many of the tests of a file run, as "1/3".
SHARE = os.environ.get("REVIEWQUEUE_SHARE", "")
#: A file to which each test process appends how many tests it left out.
LEFT_OUT = os.environ.get("REVIEWQUEUE_LEFT_OUT", "")
#: Of a test with many cases, these run: at least so many, and one in so many.
MIN_CASES, ONE_CASE_IN = 3, 6


def selected_tests(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the tests that the short run keeps, in their order."""
    files: dict[Path, dict[str, list[pytest.Item]]] = {}
    for item in items:
        if item.get_closest_marker("slow") is None:
            tests = files.setdefault(item.path, {})
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    kept: set[pytest.Item] = set()
    for tests in files.values():
        for name in choose(tests, of_all(len(tests))):
            cases = {item.nodeid: item for item in tests[name]}
            kept |= {cases[case] for case in choose(cases, max(MIN_CASES, math.ceil(len(cases) / ONE_CASE_IN)))}
    return [item for item in items if item in kept]


def of_all(count: int) -> int:
    """Return how many of a file's tests run, at least one."""
    some, _, of = SHARE.partition("/")
    return math.ceil(count * int(some) / int(of))


def choose(names: Iterable[str], count: int) -> list[str]:
    """Return ``count`` of the names, chosen by the seed: each by itself, so that a new name changes few choices."""
    return sorted(names, key=lambda name: hashlib.sha256(f"{figures.SEED} {name}".encode()).digest())[:count]


def report_left_out(count: int) -> None:
    with Path(LEFT_OUT).open("a") as file:
        file.write(f"{count}\n")


def total_left_out(path: Path) -> int:
    return sum(int(line) for line in path.read_text().split()) if path.exists() else 0
