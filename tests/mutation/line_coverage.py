"""Which tests run which line of the core: one run of the tests on SQLite under coverage.py, kept until the code changes."""

from __future__ import annotations

import gc
import hashlib
import json
import os
import time
from collections.abc import Iterator, Set
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDERS = ["tests/ledger", "tests/runs", "tests/reviewqueue", "tests/api"]
ARGUMENTS = [
    *["-q", "--no-header", "-s", "-p", "no:cacheprovider", "-p", "no:xdist"],
    *["-m", "not benchmark and not long and not postgresql and not browser"],
]
KEPT = ROOT / "var" / "mutation" / "line_coverage.json"


def test_files() -> list[str]:
    """Return the test files of the core, without those that start processes, whose lines run elsewhere, and those of random
    histories, which take as long as hundreds of others."""
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("test_*.py"))]
    left_out = ("own_processes", "hypothesis.stateful")
    return [str(path.relative_to(ROOT)) for path in paths if not any(it in path.read_text() for it in left_out)]


def core() -> list[Path]:
    """Return the modules that are mutated: both lower layers, and what judges people and keys above them."""
    above = ("authority", "desk", "gateway", "keys", "kill_switch", "voting")
    lower = [path for package in ("ledger", "runs") for path in sorted((ROOT / package).glob("*.py"))]
    return [*lower, *(ROOT / "reviewqueue" / f"{name}.py" for name in above)]


class LineCoverage:
    """The tests of each line, and how many seconds each test took."""

    def __init__(self, lines: dict[str, dict[str, list[str]]], seconds: dict[str, float]) -> None:
        self._lines, self.seconds = lines, seconds

    def tests_of(self, path: Path, lines: range) -> list[str]:
        """Return the tests that run any of these lines, fastest first."""
        of_file = self._lines.get(str(path.relative_to(ROOT)), {})
        found = {test for line in lines for test in of_file.get(str(line), [])}
        return sorted(found, key=lambda test: (self.seconds[test], test))


def read_or_record() -> LineCoverage:
    """Return which test runs which line. Only test files that are new or have changed run again, in a process of their own;
    all of them after a change of the product or of what the tests share."""
    kept = Kept.read()
    changed = kept.changed()
    if changed:
        child = os.fork()
        if not child:
            os._exit(_record(kept, changed))
        os.waitpid(child, 0)
        kept = Kept.read()
        if kept.changed():
            raise SystemExit("The tests did not run to their end; no mutant was tried.")
    return LineCoverage(kept.lines, kept.seconds)


@dataclass
class Kept:
    """What was recorded: tests by file and line, seconds by test, and the digests of the files that this is true for."""

    shared: str
    files: dict[str, str]
    lines: dict[str, dict[str, list[str]]]
    seconds: dict[str, float]

    @classmethod
    def read(cls) -> Kept:
        kept = cls(**json.loads(KEPT.read_text())) if KEPT.exists() else cls("", {}, {}, {})
        shared = _digest_of_shared()
        return kept if kept.shared == shared else cls(shared, {}, {}, {})

    def changed(self) -> list[str]:
        now = _digests_of_tests()
        self._forget(self.files.keys() - now.keys())
        return sorted(name for name, digest in now.items() if self.files.get(name) != digest)

    def add(self, names: list[str], lines: dict[str, dict[str, list[str]]], seconds: dict[str, float]) -> None:
        self._forget(set(names))
        for path, of_file in lines.items():
            for line, tests in of_file.items():
                self.lines.setdefault(path, {}).setdefault(line, []).extend(tests)
        self.seconds |= seconds
        self.files |= {name: digest for name, digest in _digests_of_tests().items() if name in names}
        KEPT.parent.mkdir(parents=True, exist_ok=True)
        KEPT.write_text(json.dumps(asdict(self)))

    def _forget(self, names: Set[str]) -> None:
        gone = {test for test in self.seconds if test.partition("::")[0] in names}
        self.seconds = {test: took for test, took in self.seconds.items() if test not in gone}
        for of_file in self.lines.values():
            for line, tests in of_file.items():
                of_file[line] = [test for test in tests if test not in gone]


def _digest_of_shared() -> str:
    paths = [path for folder in ("ledger", "runs", "reviewqueue", "tests") for path in (ROOT / folder).rglob("*.py")]
    shared = [path for path in paths if not path.name.startswith("test_") and "mutation" not in path.parts]
    whole = hashlib.sha256()
    for path in sorted(shared):
        whole.update(f"{path.relative_to(ROOT)}\n".encode() + path.read_bytes())
    return whole.hexdigest()


def _digests_of_tests() -> dict[str, str]:
    return {name: hashlib.sha256((ROOT / name).read_bytes()).hexdigest() for name in test_files()}


def _record(kept: Kept, changed: list[str]) -> int:
    import coverage

    measured = coverage.Coverage(data_file=None, include=[str(path) for path in core()])
    recorder = _Recorder(measured)
    measured.start()
    status = pytest.main([*ARGUMENTS, *changed], plugins=[recorder])
    measured.stop()
    data = measured.get_data()
    lines = {
        str(Path(name).relative_to(ROOT)): {
            str(line): [test for test in tests if test in recorder.seconds]
            for line, tests in data.contexts_by_lineno(name).items()
        }
        for name in data.measured_files()
    }
    if status in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED):
        kept.add(changed, lines, recorder.seconds)
    return int(status)


class _Recorder:
    """Names the test that runs to coverage.py, and forgets prepared queries before each: else only one test builds them."""

    def __init__(self, measured: Any) -> None:
        self.measured, self.seconds = measured, dict[str, float]()
        self.caches: Caches | None = None

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.caches = self.caches or Caches()
        self.caches.clear()
        self.measured.switch_context(item.nodeid)
        began = time.monotonic()
        yield
        self.seconds[item.nodeid] = round(time.monotonic() - began, 4)

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.seconds.pop(report.nodeid, None)


class Caches:
    """What the core keeps for the life of a process: SQL texts, and results of functions."""

    def __init__(self) -> None:
        from ledger import prepared_queries

        self._inserts = prepared_queries._inserts
        self._kept: list[Any] = []
        for it in gc.get_objects():
            if isinstance(it, prepared_queries.Compiled | prepared_queries.CompiledUpdate):
                self._kept.append(it._texts.clear)
            elif hasattr(type(it), "cache_clear") and getattr(it, "__module__", "").split(".")[0] in ("ledger", "runs"):
                self._kept.append(it.cache_clear)

    def clear(self) -> None:
        self._inserts.clear()
        for clear in self._kept:
            clear()
