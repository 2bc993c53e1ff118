"""Which tests run which line of the core: one run of the tests on SQLite under coverage.py, kept until the code changes."""

from __future__ import annotations

import gc
import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Set
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDERS = ["tests/ledger", "tests/runs", "tests/reviewqueue", "tests/api", "tests/attack"]
#: The modules above the two lower layers that decide what people and API keys are allowed to do.
ABOVE = ["resume_gateway", "permissions", "reviewer_actions", "operations/api_keys", "operations/kill_switch"]
ARGUMENTS = [
    *["-q", "--no-header", "-s", "-p", "no:cacheprovider", "-p", "no:xdist"],
    *["-m", "not benchmark and not long and not postgresql and not browser"],
]
CACHE_FILE = ROOT / "var" / "mutation" / "line_coverage.json"
#: Test files recorded by one process; what it recorded is kept even if a later one is interrupted.
FILES_AT_ONCE = 5


def test_files() -> list[str]:
    """Return the test files of the core, without those that start processes, whose lines run elsewhere, and those of random
    histories, which take as long as hundreds of others."""
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("test_*.py"))]
    left_out = ("own_processes", "hypothesis.stateful")
    return [str(path.relative_to(ROOT)) for path in paths if not any(it in path.read_text() for it in left_out)]


def core() -> list[Path]:
    """Return the modules that are mutated: both lower layers, and ``ABOVE``."""
    folders = [ROOT / "ledger", ROOT / "runs", ROOT / "runs" / "use_cases"]
    lower = [path for folder in folders for path in sorted(folder.glob("*.py"))]
    return [*lower, *(ROOT / "reviewqueue" / f"{name}.py" for name in ABOVE)]


class LineCoverage:
    """The tests of each line, and how many seconds each test took."""

    def __init__(self, lines: dict[str, dict[str, list[str]]], seconds: dict[str, float]) -> None:
        self._lines, self.seconds = lines, seconds

    def tests_of(self, path: Path, lines: range) -> list[str]:
        """Return the tests that run any of these lines, fastest first."""
        of_file = self._lines.get(str(path.relative_to(ROOT)), {})
        found = {test for line in lines for test in of_file.get(str(line), [])}
        return sorted(found, key=lambda test: (self.seconds[test], test))


def read_or_record(files: list[str], *, processes: int, again: bool = False) -> LineCoverage:
    """Return which test of these files runs which line. Recorded again are files that are new or have changed, and those
    that ran a line of a module that has changed; with ``again``, all of them."""
    kept = CachedCoverage(modules={}, files={}, lines={}, seconds={}) if again else CachedCoverage.read()
    out_of_date = kept.out_of_date()
    files = [name for name in files if name in out_of_date]
    batches = [files[at : at + FILES_AT_ONCE] for at in range(0, len(files), FILES_AT_ONCE)]
    folder = Path(tempfile.mkdtemp(prefix="reviewqueue-coverage-"))
    running: dict[int, int] = {}
    failed: list[str] = []
    for number, batch in enumerate(batches):
        if len(running) >= processes:
            failed += _keep_one(kept, batches, running, folder)
        child = os.fork()
        if not child:
            os._exit(_record(batch, folder / str(number)))
        running[child] = number
    while running:
        failed += _keep_one(kept, batches, running, folder)
    shutil.rmtree(folder)
    if failed:
        raise SystemExit(f"These test files did not run to their end; no mutant was tried: {' '.join(failed)}")
    return LineCoverage(kept.lines, kept.seconds)


def _keep_one(kept: CachedCoverage, batches: list[list[str]], running: dict[int, int], folder: Path) -> list[str]:
    """Wait for one process, keep what it recorded, and return the test files that it did not finish."""
    child, _ = os.wait()
    if child not in running:  # a process that a test left behind
        return []
    number = running.pop(child)
    recorded = folder / str(number)
    if not recorded.exists():
        return batches[number]
    kept.add(batches[number], **json.loads(recorded.read_text()))
    sys.stdout.write(f"line coverage recorded for {len(kept.files)} test files\n")
    sys.stdout.flush()
    return []


@dataclass(kw_only=True)
class CachedCoverage:
    """What was recorded: tests by file and line, seconds by test, and the digests of the modules and test files that this
    is true for."""

    modules: dict[str, str]
    files: dict[str, str]
    lines: dict[str, dict[str, list[str]]]
    seconds: dict[str, float]

    @classmethod
    def read(cls) -> CachedCoverage:
        kept = cls(modules={}, files={}, lines={}, seconds={})
        if CACHE_FILE.exists() and "modules" in (recorded := json.loads(CACHE_FILE.read_text())):
            kept = cls(**recorded)
        return kept

    def out_of_date(self) -> set[str]:
        """Forget what is no longer true, and return the test files that must run."""
        modules, files = _digests(_names_of_core()), _digests(test_files())
        gone = self.files.keys() - files.keys()
        for name in self.modules.keys() | modules.keys():
            if self.modules.get(name) != modules.get(name):
                of_module = self.lines.get(name, {}).values()
                gone |= {test.partition("::")[0] for tests in of_module for test in tests}
        gone |= {name for name, digest in files.items() if self.files.get(name) != digest}
        self._forget(gone)
        self.modules = modules
        return gone & files.keys()

    def add(self, names: list[str], lines: dict[str, dict[str, list[str]]], seconds: dict[str, float]) -> None:
        self._forget(set(names))
        for path, of_file in lines.items():
            for line, tests in of_file.items():
                self.lines.setdefault(path, {}).setdefault(line, []).extend(tests)
        self.seconds |= seconds
        self.files |= _digests(names)
        CACHE_FILE.parent.mkdir(parents=True, exist_ok=True)
        CACHE_FILE.write_text(json.dumps(asdict(self)))

    def _forget(self, names: Set[str]) -> None:
        gone = {test for test in self.seconds if test.partition("::")[0] in names}
        self.files = {name: digest for name, digest in self.files.items() if name not in names}
        self.seconds = {test: took for test, took in self.seconds.items() if test not in gone}
        for of_file in self.lines.values():
            for line, tests in of_file.items():
                of_file[line] = [test for test in tests if test not in gone]


def _names_of_core() -> list[str]:
    return [str(path.relative_to(ROOT)) for path in core()]


def _digests(names: list[str]) -> dict[str, str]:
    return {name: hashlib.sha256((ROOT / name).read_bytes()).hexdigest() for name in names}


def _record(files: list[str], recorded: Path) -> int:
    """Run these test files under coverage.py and write what they ran; nothing if they did not run to their end."""
    import coverage

    measured = coverage.Coverage(data_file=None, include=[str(path) for path in core()])
    recorder = _Recorder(measured)
    measured.start()
    status = pytest.main([*ARGUMENTS, *files], plugins=[recorder])
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
        recorded.write_text(json.dumps({"lines": lines, "seconds": recorder.seconds}))
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
        gc.unfreeze()  # frozen objects (`conftest.py`) are in no list
        for it in gc.get_objects():
            if isinstance(it, prepared_queries.PreparedQuery | prepared_queries.PreparedUpdate):
                self._kept.append(it._texts.clear)
            elif hasattr(type(it), "cache_clear") and getattr(it, "__module__", "").split(".")[0] in ("ledger", "runs"):
                self._kept.append(it.cache_clear)

    def clear(self) -> None:
        self._inserts.clear()
        for clear in self._kept:
            clear()
