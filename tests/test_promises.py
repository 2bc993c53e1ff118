"""The pages of the promises list all 25 and the tests that prove them; their figures come from the tests alone."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests import figures, promises
from tests.figures import Proof, Row
from tests.promises import PROMISES, PROVEN_BY, RESULTS, WITHOUT, part

PAGE = part(promises.PAGE.read_text(), RESULTS)
TESTS = part(promises.PAGE_OF_TESTS.read_text(), PROVEN_BY)


def sections(text: str) -> dict[int, tuple[str, str]]:
    """Return the heading and the text of each promise's section."""
    found = re.split(r"^##+ (\d+)\. (.*)$", text, flags=re.MULTILINE)[1:]
    return {
        int(number): (heading, words)
        for number, heading, words in zip(found[::3], found[1::3], found[2::3], strict=True)
    }


@pytest.mark.parametrize("text", [PAGE, TESTS], ids=["results", "tests"])
def test_a_page_has_a_section_for_each_promise(text: str):
    headings = {number: heading.lower() for number, (heading, _) in sections(text).items()}
    assert headings == {number: words.lower() for number, words in PROMISES.items()}


def test_the_summary_has_a_line_for_each_promise():
    lines = re.findall(r"^\| (\d+) \| (.*?) \|(?: [\d,]+ \|){3}$", PAGE, re.MULTILINE)
    assert {int(number): words for number, words in lines} == PROMISES


def test_every_number_has_a_cell_of_its_own():
    for number, (_, text) in sections(PAGE).items():
        for line in text.splitlines():
            if line.startswith("|") and not line.startswith(("|---", "| trial | result |")):
                assert re.fullmatch(r"\| \D[^|]* \| [^|]+ \|(?: [\d,]* \|){2}", line), (number, line)
    assert "<br>" not in PAGE


def test_the_page_lists_the_tests_that_prove_each_promise():
    listed = sections(TESTS)
    for promise, tests in promises.proofs_by_promise().items():
        _, text = listed[promise]
        assert (WITHOUT in text) == (not tests)
        found = [
            f"{path}::{name}"
            for path, names in re.findall(r"^- \[(.*?)\]\(.*\)\n((?:  - .*\n)+)", text, re.MULTILINE)
            for name in re.findall(r"`(\w+)`", names)
        ]
        assert sorted(found) == sorted(tests), f"promise {promise}: run .venv/bin/python -m tests.promises"


def test_the_page_shows_how_its_figures_were_measured():
    assert re.search(r"\| command \| `python3 manage.py test --(?:promises|record) .*--seed \d+` \|", PAGE)
    assert re.search(r"\| commit \| `\w+.*` \|\n\| seed \| \d+ \|\n\| machine \| \d+ cores", PAGE)


def test_every_mark_names_a_promise():
    assert set(promises.proofs_by_promise()) == set(PROMISES)


# --- how figures are summed up -------------------------------------------------------------------------------------------


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
        Row(promise=3, n=57, what="races", result="0 double"),
        Row(promise=3, n=1, what=figures.TESTS, result=figures.PASSED),
    ]


def test_a_count_may_be_of_one_promise_of_several():
    rows = figures.rows_of([a_proof(counted=[("late answers", "0 accepted", 9, 7)])])
    assert [(row.promise, row.n) for row in rows if row.what.startswith("late")] == [(7, 9), (25, 9)]
    assert [row.what for row in rows if row.promise == 3] == [figures.TESTS]


def test_a_failed_proof_is_named():
    [row] = [row for row in figures.rows_of([a_proof(outcome="failed")]) if row.promise == 7]
    assert (row.what, row.failed) == ("tests/test_x.py::test_y", True)


def test_what_was_skipped_proves_nothing():
    assert figures.rows_of([a_proof(outcome="skipped")]) == []


def test_figures_survive_the_way_from_one_run_to_the_next(tmp_path: Path):
    proofs = [a_proof(counted=[("races", "0 double", 50, 0)]), a_proof()]
    figures.save(tmp_path / "figures", proofs)
    assert figures.load(tmp_path / "figures") == proofs
    assert [json.loads(line)["promises"] for line in (tmp_path / "figures").read_text().splitlines()] == [[3, 7]] * 2


def test_what_holds_1_to_9_on_sqlite_holds_25():
    assert {row.promise for row in figures.rows_of([a_proof()])} == {3, 7, 25}
    assert {row.promise for row in figures.rows_of([a_proof(promises=[10])])} == {10}
    assert {row.promise for row in figures.rows_of([a_proof(database="PostgreSQL")])} == {3, 7}


def test_a_page_is_written_between_its_marks_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    written = tmp_path / "reliability.md"
    begin, end = f"<!-- {RESULTS}: begin -->", f"<!-- {RESULTS}: end -->"
    written.write_text(f"before\n{begin}\nof yesterday\n{end}\nbehind\n")
    monkeypatch.setattr(promises, "PAGE", written)
    under = promises.Circumstances(commit="abc", date="2030-01-01", machine="2 cores", seed=7, command="python3 x")
    rows = [
        Row(promise=3, n=1234, what="races | <b>", result="0 double"),
        Row(promise=3, n=1, what="tests/test_x.py::test_y", result=figures.FAILED),
    ]
    for _ in range(2):
        promises.write_results(seen={"PostgreSQL": [], "SQLite": rows}, under=under)
        text = written.read_text()
        assert text.startswith(f"before\n{begin}\n")
        assert text.endswith(f"{end}\nbehind\n")
        assert "of yesterday" not in text
        assert "| 3 | one interrupt, one outcome | 0 | 1,234 | 1 |" in text
        assert "| trial | result | times, PostgreSQL | times, SQLite |\n|---|---|--:|--:|\n" in text
        assert "| races / (b) | 0 double |  | 1,234 |" in text
        assert "| commit | `abc` |" in text
