"""The one command that checks everything: it says how each part ended, and fails when one did."""

from __future__ import annotations

import argparse
import sys

import pytest

from tests import figures, postgresql, run


@pytest.fixture
def a_run() -> run.Run:
    return run.Run(long=False, environment={})


def test_the_summary_fails_when_one_part_failed(a_run: run.Run, capsys: pytest.CaptureFixture[str]):
    a_run.note("lint", True, "ok", 0)
    assert run.close(a_run) == 0
    a_run.note("suite on SQLite", False, "1 failed, 7 passed in 2.00s", 0)
    assert run.close(a_run) == 1
    said = capsys.readouterr().out
    assert "1 failed, 7 passed in 2.00s" in said
    assert "Failed: suite on SQLite" in said


def test_a_check_that_fails_is_shown_whole_with_the_way_to_run_it(
    a_run: run.Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(run, "commands_of_checks", lambda: [("lint", [sys.executable, "-c", "exit('why it failed')"])])
    run.check(a_run)
    said = capsys.readouterr().out
    assert "FAIL lint" in said
    assert "why it failed" in said
    assert "by hand: " in said
    assert run.close(a_run) == 1


def test_a_missing_browser_is_loud_and_an_error_only_in_ci(
    a_run: run.Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.delenv("CHROMIUM", raising=False)
    monkeypatch.setattr(run.shutil, "which", lambda name: None)
    monkeypatch.setenv("CI", "")
    assert not run.find_browser(a_run)
    assert run.close(a_run) == 0
    assert "the browser tests are NOT run" in capsys.readouterr().out
    monkeypatch.setenv("CI", "true")
    assert not run.find_browser(a_run)
    assert run.close(a_run) == 1


def chosen(**options: object) -> argparse.Namespace:
    defaults = {"all": False, "promises": False, "record": False, "long": False, "on": None, "seed": None, "seeds": 1}
    return argparse.Namespace(**defaults | options)


def test_a_run_without_options_has_the_same_seed_each_time():
    assert {run.choose_seed(chosen()) for _ in range(3)} == {figures.FIXED_SEED}
    assert run.choose_seed(chosen(long=True)) == figures.FIXED_SEED


@pytest.mark.parametrize("option", ["all", "promises", "record"])
def test_a_run_of_everything_draws_a_seed_unless_one_is_named(option: str):
    assert len({run.choose_seed(chosen(**{option: True})) for _ in range(5)}) > 1
    assert run.choose_seed(chosen(**{option: True, "seed": 7})) == 7


def test_a_run_that_fails_prints_how_to_repeat_it(a_run: run.Run, capsys: pytest.CaptureFixture[str]):
    words = chosen(all=True, on="sqlite", seed=736761)
    a_run.repeated_by = run.command_that_repeats(words, ["tests/runs", "-k", "no history"])
    a_run.note("suite on SQLite", True, "7 passed in 2.00s", 0)
    run.close(a_run)
    assert "To repeat it" not in capsys.readouterr().out
    a_run.note("browser", False, "1 failed in 2.00s", 0)
    run.close(a_run)
    by = "To repeat it: python3 manage.py test --all --on sqlite --seed 736761 tests/runs -k 'no history'\n"
    assert by in capsys.readouterr().out


def test_no_postgresql_fails_with_advice(a_run: run.Run, monkeypatch: pytest.MonkeyPatch, tmp_path):
    monkeypatch.setattr(postgresql.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(postgresql.Path, "glob", lambda self, pattern: [])
    monkeypatch.setattr(postgresql.shutil, "which", lambda name: None)
    with pytest.raises(postgresql.NoPostgreSQL, match="--on sqlite"):
        postgresql.binaries(tmp_path)


def test_the_last_line_of_a_part_is_kept_for_the_summary(capfdbinary: pytest.CaptureFixture[bytes]):
    status, last = run.run_and_show([sys.executable, "-c", "print('.....'); print('5 passed'); exit(3)"], {})
    assert (status, last) == (3, "5 passed")
