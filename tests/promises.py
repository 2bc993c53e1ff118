"""The promises of reliability, 1 to 25; which test proves which; and the page that shows the latest figures.

A test says by `@pytest.mark.proves(3)` what it proves: on itself, or in the `pytestmark` of its module. `manage.py test
--promises` runs those tests and writes `docs/reliability.md` between its marks; nothing else writes there.
`.venv/bin/python -m tests.promises` runs nothing, and writes anew only which test proves what.
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

#: Parts of the page, each between two marks: `<!-- figures: begin -->` and `<!-- figures: end -->`.
FIGURES, PROVEN_BY = "figures", "proven by"
WITHOUT = "**no test of its own yet**"

PROMISES = {
    1: "a create answered 2xx is never lost",
    2: "a repeated create returns the same object",
    3: "one interrupt, one outcome",
    4: "answer and continuation are one commit",
    5: "no effect runs twice unless a named person orders it",
    6: "an unknown outcome is shown as unknown and has an owner at once",
    7: "an answer after the deadline is refused though no sweep ran",
    8: "every wait ends, once, also after downtime",
    9: "a stale lease cannot write",
    10: "webhooks: at least once, signed, the same id on retry",
    11: "a wait holds no process, thread or connection",
    12: "what the reviewer saw is what runs",
    13: "authority is checked again before going on",
    14: "facts are checked again, fail closed",
    15: "cancel stops or compensates, and says which",
    16: "pause holds everything, resume loses nothing",
    17: "a database restart gives success or a clean error",
    18: "a full disk refuses work and recovers",
    19: "process clocks may lie",
    20: "one bad thing cannot stop the others",
    21: "nothing is dropped silently at the last attempt",
    22: "an upgrade keeps old waits",
    23: "restoring a backup does not repeat effects",
    24: "history cannot be changed unnoticed",
    25: "SQLite keeps 1 to 9 on one host",
}


@dataclass(frozen=True, kw_only=True)
class Circumstances:
    """Under what a table of figures came about."""

    commit: str
    date: str
    machine: str
    seed: int
    command: str


@cache
def proofs_by_promise() -> Mapping[int, Sequence[str]]:
    """Read from the tests' own text: promise -> `path::test`, in order."""
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


# --- the page ---------------------------------------------------------------------------------------------------------


def part(page: str, name: str) -> str:
    """Return what stands between the two marks of a part."""
    return page.partition(f"<!-- {name}: begin -->")[2].partition(f"<!-- {name}: end -->")[0]


def write_figures(*, seen: Mapping[str, Sequence[Row]], under: Circumstances) -> None:
    """Put the latest figures into the page: ``seen`` has the rows of each database."""
    lines = [
        f"Written on {under.date} by `{under.command}`",
        f"at commit `{under.commit}`, seed {under.seed}, on {under.machine}.",
        "",
        f"| # | promise | {' | '.join(f'on {database}' for database in seen)} |",
        f"|---|---|{'---|' * len(seen)}",
    ]
    for promise, words in PROMISES.items():
        cells = [_cell(promise, rows) for rows in seen.values()]
        lines.append(f"| {promise} | {words} | {' | '.join(cells)} |")
    _write_part(FIGURES, lines)


def write_proofs() -> None:
    """Put into the page which tests prove what."""
    lines = ["| # | proven by |", "|---|---|"]
    for promise, tests in proofs_by_promise().items():
        lines.append(f"| {promise} | {_named(tests)} |")
    _write_part(PROVEN_BY, lines)


def _write_part(name: str, lines: Sequence[str]) -> None:
    page = PAGE.read_text()
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    written = "\n".join(lines)
    PAGE.write_text(f"{page.partition(begin)[0]}{begin}\n\n{written}\n\n{end}{page.partition(end)[2]}")


def _cell(promise: int, rows: Sequence[Row]) -> str:
    return "<br>".join(f"{row.n:,} {_inert(row.seen)}" for row in rows if row.promise == promise) or "not seen here"


def _inert(words: str) -> str:
    return words.replace("|", "/").replace("<", "(").replace(">", ")")


def _named(tests: Sequence[str]) -> str:
    if not tests:
        return WITHOUT
    by_file: dict[str, list[str]] = {}
    for test in tests:
        path, _, name = test.partition("::")
        by_file.setdefault(path, []).append(f"`{name}`")
    return "<br>".join(f"[{path}](../{path}): {', '.join(names)}" for path, names in by_file.items())


if __name__ == "__main__":
    write_proofs()
