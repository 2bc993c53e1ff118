"""The promises of reliability, which tests prove each, and the pages that show the results.

A test names its promises by ``@pytest.mark.proves(3)``, on itself or in its module's ``pytestmark``. ``manage.py test
--promises`` runs these tests and writes the results into ``docs/reliability.md``, between marks. ``.venv/bin/python -m
tests.promises`` runs no test and updates only the list of tests, ``docs/reliability-tests.md``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.figures import Row

TESTS = Path(__file__).resolve().parent
PAGE = TESTS.parent / "docs" / "reliability.md"
PAGE_OF_TESTS = TESTS.parent / "docs" / "reliability-tests.md"

#: The generated part of a page is between two marks: ``<!-- results: begin -->`` and ``<!-- results: end -->``.
RESULTS, PROVEN_BY = "results", "proven by"
WITHOUT = "**No test yet.**"

PROMISES = {
    1: "a create answered 2xx is never lost",
    2: "a repeated create returns the same object",
    3: "one interrupt, one outcome",
    4: "answer and continuation are one commit",
    5: "no effect runs twice unless a named person orders it",
    6: "an unknown outcome is shown as unknown and has an owner immediately",
    7: "an answer after the deadline is refused though no sweep ran",
    8: "every interrupt ends exactly once, also after downtime",
    9: "a stale lease cannot write",
    10: "webhooks are delivered at least once, signed, with the same id on retry",
    11: "a waiting interrupt holds no process, thread or connection",
    12: "what the reviewer saw is what runs",
    13: "permissions are checked again before a run continues",
    14: "facts are checked again; a failed check keeps the run on hold",
    15: "cancel stops or compensates, and reports which",
    16: "pause holds everything, resume loses nothing",
    17: "a database restart gives success or a clean error",
    18: "a full disk refuses work and recovers",
    19: "clocks of processes can be wrong",
    20: "one faulty part cannot stop the others",
    21: "nothing is dropped silently after the last attempt",
    22: "an upgrade keeps open interrupts",
    23: "restoring a backup does not repeat effects",
    24: "history cannot be changed unnoticed",
    25: "SQLite keeps 1 to 9 on one host",
}


@dataclass(frozen=True, kw_only=True)
class Circumstances:
    """Where, when and how the results were measured."""

    commit: str
    date: str
    machine: str
    seed: int
    command: str


@cache
def proofs_by_promise() -> Mapping[int, Sequence[str]]:
    """Return ``path::test`` by promise, read from the marks in the tests' source."""
    found: dict[int, list[str]] = {promise: [] for promise in PROMISES}
    for path in sorted(TESTS.rglob("test_*.py")):
        for test, promise in _proofs_in(path):
            found[promise].append(f"{path.relative_to(TESTS.parent)}::{test}")
    return found


def _proofs_in(path: Path) -> Iterator[tuple[str, int]]:
    text = path.read_text()
    if "mark.proves(" not in text:
        return
    module = ast.parse(text)
    of_all = [promise for line in module.body if _is_pytestmark(line) for promise in _promises_in(line)]
    for line in module.body:
        if isinstance(line, ast.FunctionDef) and line.name.startswith("test_"):
            own = [promise for decorator in line.decorator_list for promise in _promises_in(decorator)]
            for promise in sorted({*of_all, *own}):
                yield line.name, promise


def _is_pytestmark(line: ast.stmt) -> bool:
    return isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == "pytestmark"


def _promises_in(marks: ast.AST) -> Iterator[int]:
    for call in ast.walk(marks):
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "pytest.mark.proves":
            yield from (ast.literal_eval(argument) for argument in call.args)


# --- the pages --------------------------------------------------------------------------------------------------------


def part(page: str, name: str) -> str:
    """Return the text between the two marks of a generated part."""
    return page.partition(f"<!-- {name}: begin -->")[2].partition(f"<!-- {name}: end -->")[0]


def write_results(*, seen: Mapping[str, Sequence[Row]], under: Circumstances) -> None:
    """Write the latest results into the page: ``seen`` has the rows of each database."""
    _write_part(PAGE, RESULTS, [*_circumstances(under), "", *_summary(seen), *_details(seen)])


def _circumstances(under: Circumstances) -> Iterator[str]:
    yield "| measured | |"
    yield "|---|---|"
    yield f"| date | {under.date} |"
    yield f"| command | `{under.command}` |"
    yield f"| commit | `{under.commit}` |"
    yield f"| seed | {under.seed} |"
    yield f"| machine | {under.machine} |"


def _summary(seen: Mapping[str, Sequence[Row]]) -> Iterator[str]:
    yield f"| # | promise | {' | '.join(f'trials, {database}' for database in seen)} | failed tests |"
    yield f"|--:|---|{'--:|' * len(seen)}--:|"
    for promise, words in PROMISES.items():
        trials = [sum(row.n for row in rows if row.promise == promise and not row.failed) for rows in seen.values()]
        failed = sum(row.promise == promise and row.failed for rows in seen.values() for row in rows)
        yield f"| {promise} | {words} | {' | '.join(f'{n:,}' for n in trials)} | {failed} |"


def _details(seen: Mapping[str, Sequence[Row]]) -> Iterator[str]:
    """Yield one table for each promise: one line for each kind of trial, one number in a cell."""
    for promise, words in PROMISES.items():
        yield from ("", f"### {promise}. {words[0].upper()}{words[1:]}", "")
        times: dict[tuple[str, str], dict[str, int]] = {}
        for database, rows in seen.items():
            for row in rows:
                if row.promise == promise:
                    times.setdefault((row.what, row.result), {})[database] = row.n
        if not times:
            yield "Not measured in this run."
            continue
        yield f"| trial | result | {' | '.join(f'times, {database}' for database in seen)} |"
        yield f"|---|---|{'--:|' * len(seen)}"
        for (what, result), counts in times.items():
            numbers = " | ".join(f"{counts[database]:,}" if database in counts else "" for database in seen)
            yield f"| {_inert(what)} | {_inert(result)} | {numbers} |"


def write_proofs() -> None:
    """Write which tests prove each promise, one test a line."""
    lines: list[str] = []
    for promise, tests in proofs_by_promise().items():
        words = PROMISES[promise]
        lines += ["", f"## {promise}. {words[0].upper()}{words[1:]}", ""]
        by_file: dict[str, list[str]] = {}
        for test in tests:
            path, _, name = test.partition("::")
            by_file.setdefault(path, []).append(name)
        for path, names in by_file.items():
            lines += [f"- [{path}](../{path})", *(f"  - `{name}`" for name in names)]
        lines += [] if tests else [WITHOUT]
    _write_part(PAGE_OF_TESTS, PROVEN_BY, lines[1:])


def _write_part(path: Path, name: str, lines: Sequence[str]) -> None:
    page = path.read_text()
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    written = "\n".join(lines)
    path.write_text(f"{page.partition(begin)[0]}{begin}\n\n{written}\n\n{end}{page.partition(end)[2]}")


def _inert(words: str) -> str:
    return words.replace("|", "/").replace("<", "(").replace(">", ")")


if __name__ == "__main__":
    write_proofs()
