"""The command that runs all checks: it shows how each part ended, and fails if one failed."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import figures, postgresql, run, sampling


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
    assert "command: " in said
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


def test_a_short_run_says_what_it_left_out(a_run: run.Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    a_run.left_out = tmp_path / "left-out"
    run.close(a_run)
    assert "Left out" not in capsys.readouterr().out
    a_run.left_out.write_text("1100\n23\n")
    run.close(a_run)
    assert capsys.readouterr().out.endswith("Left out: 1,123 tests; run them with --all\n")


def test_only_a_run_without_options_is_short(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    runs: list[run.Run] = []
    monkeypatch.setattr(run, "check", lambda a_run: None)
    monkeypatch.setattr(run, "test", lambda a_run, **_: runs.append(a_run))
    for arguments in ([], ["--on", "sqlite"], ["--all"], ["--long"], ["--record"], ["--promises"], ["tests/runs"]):
        run.main(arguments)
    assert [a_run.short for a_run in runs] == [True, True, False, False, False, False, False]


def test_bytecode_is_kept_beside_the_sources_where_they_must_stay_clean():
    plain, clean = {"A": "b"}, {"PYTHONDONTWRITEBYTECODE": "1"}
    run.keep_bytecode(plain)
    run.keep_bytecode(clean)
    assert plain == {"A": "b"}
    assert clean == {"PYTHONPYCACHEPREFIX": str(Path(sys.prefix) / ".bytecode")}


# --- the sample of a short run ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Item:
    """What the sample looks at of a collected test."""

    nodeid: str
    slow: bool = False
    path: Path = Path("test_it.py")

    def get_closest_marker(self, name: str) -> str | None:
        return name if name == "slow" and self.slow else None


ITEMS = [*(Item(f"test_many[{n}]") for n in range(30)), *(Item(f"test_few[{n}]") for n in range(3))]
ITEMS += [Item("test_slow", slow=True), Item("test_1"), Item("test_2")]


def sampled(monkeypatch: pytest.MonkeyPatch, *, share: str, seed: int = 1) -> list[str]:
    monkeypatch.setattr(sampling, "SHARE", share)
    monkeypatch.setattr(figures, "SEED", seed)
    return [item.nodeid for item in sampling.selected_tests(ITEMS)]


def functions(names: list[str]) -> dict[str, int]:
    return dict(Counter(name.partition("[")[0] for name in names))


def test_the_sample_has_some_cases_of_every_test_and_no_slow_one(monkeypatch: pytest.MonkeyPatch):
    kept = sampled(monkeypatch, share="1/1")
    assert functions(kept) == {"test_many": 5, "test_few": 3, "test_1": 1, "test_2": 1}


def test_the_sample_is_the_same_for_a_seed_and_another_for_another(monkeypatch: pytest.MonkeyPatch):
    assert sampled(monkeypatch, share="1/2") == sampled(monkeypatch, share="1/2")
    assert len({tuple(sampled(monkeypatch, share="1/1", seed=seed)) for seed in range(5)}) == 5


def test_a_share_of_a_file_has_at_least_one_of_its_tests(monkeypatch: pytest.MonkeyPatch):
    assert len(functions(sampled(monkeypatch, share="1/2"))) == 2
    assert len(functions(sampled(monkeypatch, share="1/100"))) == 1


# --- PostgreSQL -------------------------------------------------------------------------------------------------------


def test_no_postgresql_fails_with_advice(a_run: run.Run, monkeypatch: pytest.MonkeyPatch, tmp_path):
    monkeypatch.setattr(postgresql.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(postgresql.Path, "glob", lambda self, pattern: [])
    monkeypatch.setattr(postgresql.shutil, "which", lambda name: None)
    with pytest.raises(postgresql.NoPostgreSQL, match="--on sqlite"):
        postgresql.binaries(tmp_path)


def test_the_last_line_of_a_part_is_kept_for_the_summary(capfdbinary: pytest.CaptureFixture[bytes]):
    status, last = run.run_and_show([sys.executable, "-c", "print('.....'); print('5 passed'); exit(3)"], {})
    assert (status, last) == (3, "5 passed")
