"""The table of cases (`cases.md`): each has a description and a test, and the tests that the table names exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent
ROW = re.compile(r"^\| (C\d{3}) \| [^|]+ \| (.*) \|$", re.M)


def named_in_the_table() -> set[tuple[str, str, str]]:
    """Each case with the file and the name of a test."""
    found = set()
    for case, tests in ROW.findall((TESTS / "cases.md").read_text()):
        for of_a_file in tests.split("<br>"):
            path, _, names = of_a_file.partition(": ")
            found |= {(case, path, name) for name in re.findall(r"`(\w+)`", names)}
    return found


def written_tests() -> Iterator[tuple[str, str, str]]:
    for path in TESTS.rglob("test_*.py"):
        for line in ast.parse(path.read_text()).body:
            if isinstance(line, ast.FunctionDef) and line.name.startswith("test_"):
                yield str(path.relative_to(TESTS.parent)), line.name, ast.get_docstring(line) or ""


def test_every_test_of_the_table_exists():
    there = {(path, name) for path, name, _ in written_tests()}
    assert {(path, name) for _, path, name in named_in_the_table()} - there == set()


def test_every_case_has_a_test_and_a_description():
    table = re.findall(r"^\| (C\d{3}) \| \w", (TESTS / "cases.md").read_text(), re.M)
    named = {case for _, _, said in written_tests() for case in re.findall(r"\bC\d{3}\b", said)}
    assert len(table) == len({*table}) > 80
    assert named | {case for case, _, _ in named_in_the_table()} == {*table}
