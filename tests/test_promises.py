"""The page of the promises names all 25 and what proves them, and its figures come from the tests by one way."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests import figures, promises
from tests.figures import Proof, Row
from tests.promises import FIGURES, PROMISES, PROVEN_BY, WITHOUT, part

PAGE = promises.PAGE.read_text()


def cells(name: str) -> dict[int, str]:
    lines = [line for line in part(PAGE, name).splitlines() if re.match(r"\| \d", line)]
    rows = (line.strip("| ").partition(" | ") for line in lines)
    return {int(number): words for number, _, words in rows}


def test_the_page_tells_of_every_promise_in_its_words():
    told = cells(FIGURES)
    assert list(told) == list(PROMISES) == list(range(1, 26))
    for promise, words in PROMISES.items():
        assert told[promise].startswith(f"{words} | "), promise


def test_the_page_names_the_tests_that_prove_each_promise_and_says_where_there_are_none():
    named = cells(PROVEN_BY)
    assert list(named) == list(PROMISES)
    for promise, tests in promises.proofs_by_promise().items():
        assert (named[promise] == WITHOUT) == (not tests), f"promise {promise}: .venv/bin/python -m tests.promises"
        for path, names in re.findall(r"\[(.*?)\]\(.*?\): ([^<]*)", named[promise]):
            text = (promises.TESTS.parent / path).read_text()
            assert [name for name in re.findall(r"`(\w+)`", names) if f"def {name}(" not in text] == []


def test_the_page_says_how_its_figures_came_about():
    assert re.search(
        r"by `python3 manage.py test --(?:promises|record) .*--seed \d+`\nat commit `\w+.*`, seed \d+, on \d+ cores",
        PAGE,
    )


def test_every_mark_names_a_promise():
    assert set(promises.proofs_by_promise()) == set(PROMISES)


# --- the way of the figures -------------------------------------------------------------------------------------------


def a_proof(**other: object) -> Proof:
    words = {"database": "SQLite", "test": "tests/test_x.py::test_y", "outcome": "passed", "promises": [3, 7]}
    return Proof(**words | other)


def test_counts_are_summed_up_and_tests_without_a_count_are_counted_themselves():
    proofs = [
        a_proof(counted=[("races", "0 double", 50, 0)]),
        a_proof(counted=[("races", "0 double", 7, 0)]),
        a_proof(),
    ]
    assert [row for row in figures.rows_of(proofs) if row.promise == 3] == [
        Row(promise=3, n=57, seen="races: 0 double"),
        Row(promise=3, n=1, seen="tests: as promised"),
    ]


def test_a_count_may_be_of_one_promise_of_several():
    rows = figures.rows_of([a_proof(counted=[("late answers", "0 accepted", 9, 7)])])
    assert [(row.promise, row.n) for row in rows if row.seen.startswith("late")] == [(7, 9), (25, 9)]
    assert [row.seen for row in rows if row.promise == 3] == ["tests: as promised"]


def test_a_proof_that_failed_is_told_by_name():
    [row] = [row for row in figures.rows_of([a_proof(outcome="failed")]) if row.promise == 7]
    assert row.seen == "FAILED: tests/test_x.py::test_y"


def test_what_was_skipped_proves_nothing():
    assert figures.rows_of([a_proof(outcome="skipped")]) == []


def test_figures_survive_the_way_from_one_run_to_the_next(tmp_path: Path):
    proofs = [a_proof(counted=[("races", "0 double", 50, 0)]), a_proof()]
    figures.keep(tmp_path / "figures", proofs)
    assert figures.kept(tmp_path / "figures") == proofs
    assert [json.loads(line)["promises"] for line in (tmp_path / "figures").read_text().splitlines()] == [[3, 7]] * 2


def test_what_holds_1_to_9_on_sqlite_holds_25():
    assert {row.promise for row in figures.rows_of([a_proof()])} == {3, 7, 25}
    assert {row.promise for row in figures.rows_of([a_proof(promises=[10])])} == {10}
    assert {row.promise for row in figures.rows_of([a_proof(database="PostgreSQL")])} == {3, 7}


def test_the_page_is_written_between_its_marks_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    written = tmp_path / "reliability.md"
    marks = [f"<!-- {name}: {end} -->" for name in (FIGURES, PROVEN_BY) for end in ("begin", "end")]
    written.write_text("before\n{}\nof yesterday\n{}\nbetween\n{}\nof yesterday\n{}\nbehind\n".format(*marks))
    monkeypatch.setattr(promises, "PAGE", written)
    under = promises.Circumstances(commit="abc", date="2030-01-01", machine="2 cores", seed=7, command="python3 x")
    promises.write_figures(seen={"SQLite": [Row(promise=3, n=1234, seen="races | <b>: 0 double")]}, under=under)
    promises.write_proofs()
    said = written.read_text()
    assert said.startswith(f"before\n{marks[0]}\n\nWritten on 2030-01-01 by `python3 x`")
    assert f"\n{marks[1]}\nbetween\n{marks[2]}\n\n| # | proven by |" in said
    assert said.endswith(f"{marks[3]}\nbehind\n")
    assert "of yesterday" not in said
    assert "| 3 | one interrupt, one outcome | 1,234 races / (b): 0 double |" in said
    assert "| 2 | a repeated create returns the same object | not seen here |" in said
