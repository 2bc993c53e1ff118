"""One fork for each mutant: the child changes the code of the functions in place, and runs the tests of the line.

The code object itself is replaced, so that every module that imported the function by name runs the mutant. Tests run until
one fails: first the one that killed it in an earlier run, then those that killed another mutant of its function, then the
fastest. A failure counts only if that test passes in a fork without a mutant.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import NamedTuple

import pytest
from _pytest.runner import runtestprotocol

from tests.mutation.line_coverage import Caches, LineCoverage
from tests.mutation.mutants import Module, Mutant

#: A test that takes this long, or ten times as long as without a mutant, is ended: the mutant counts as killed.
SECONDS_FOR_A_TEST = 60
INVALID, PASSED = "invalid", "passed"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How one mutant ended: killed by a test (its node id) or by a timeout, survived, or invalid (no such code)."""

    mutant: Mutant
    how: str
    by: str = ""
    tests: int = 0
    seconds: float = 0.0


class _Running(NamedTuple):
    """A fork at work: its pipe for answers, when it began, and the folder of its database and files."""

    module: Module
    mutant: Mutant
    answers: int
    began: float
    folder: Path


class Forks:
    """A pytest plugin: takes the place of the loop over the collected tests."""

    def __init__(
        self,
        modules: list[Module],
        sample: list[tuple[Module, Mutant]],
        coverage: LineCoverage,
        *,
        processes: int,
        seconds: float,
        show: Callable[[Outcome], None],
        killers: dict[str, str],
    ) -> None:
        self.modules, self.sample, self.coverage = modules, sample, coverage
        self.processes, self.seconds, self.show = processes, seconds, show
        self.killers = killers
        self.outcomes: list[Outcome] = []
        self._fit: dict[str, bool] = {}
        self._killed = Counter[tuple[str, str]]()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._items = {item.nodeid: item for item in session.items}
        for module in self.modules:
            importlib.import_module(module.name)
        first, second = [item for item in session.items if "django_db" in item.keywords][:2]
        runtestprotocol(first, log=False, nextitem=second)  # sets the database up, which every fork then copies
        from django.db import connections

        connections.close_all()
        self._caches = Caches()
        self._live = _live_functions({str(module.path) for module in self.modules})
        gc.collect()
        gc.freeze()
        running: dict[int, _Running] = {}
        for module, mutant in self.sample:
            while len(running) >= self.processes:
                self._wait(running)
            self._start(module, mutant, running)
        while running:
            self._wait(running)
        return True

    def _start(self, module: Module, mutant: Mutant, running: dict[int, _Running]) -> None:
        tests = [it for it in self.coverage.tests_of(mutant.path, mutant.lines) if it in self._items]
        tests = [it for it in tests if self._fit.get(it, True)]
        known = self.killers.get(mutant.id)
        tests.sort(key=lambda it: (it != known, -self._killed[_function_of(mutant), it]))  # keeps the fastest first
        if not tests:
            self._add(Outcome(mutant=mutant, how="survived", by="no test runs this line"))
            return
        child, answers, folder = self._fork(lambda: _mutate(module, mutant, self._live), tests)
        running[child] = _Running(module, mutant, answers, time.monotonic(), folder)

    def _wait(self, running: dict[int, _Running]) -> None:
        child, status = os.wait()
        if child not in running:  # a process that a test of a child left behind
            return
        module, mutant, answers, began, folder = running.pop(child)
        how, by, count = _ending(child, status, answers, folder)
        if how == "killed" and not self._passes_without(by):
            self._start(module, mutant, running)  # without that test
            return
        if how == "killed":
            self._killed[_function_of(mutant), by] += 1
            self.killers[mutant.id] = by
        self._add(Outcome(mutant=mutant, how=how, by=by, tests=count, seconds=time.monotonic() - began))

    def _passes_without(self, test: str) -> bool:
        if test not in self._fit:
            child, answers, folder = self._fork(lambda: True, [test])
            _, status = os.waitpid(child, 0)
            self._fit[test] = _ending(child, status, answers, folder)[0] == "survived"
        return self._fit[test]

    def _add(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        self.show(outcome)

    def _fork(self, change: Callable[[], bool], tests: list[str]) -> tuple[int, int, Path]:
        answers, theirs = os.pipe()
        folder = Path(tempfile.mkdtemp(prefix="reviewqueue-mutant-"))
        child = os.fork()
        if child:
            os.close(theirs)
            return child, answers, folder
        try:
            os.setsid()
            silent = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(silent, stream)
            _use_own_database_and_files(folder)
            for line in self._run(change, tests):
                os.write(theirs, line.encode())
        finally:
            os._exit(0)

    def _run(self, change: Callable[[], bool], tests: list[str]) -> Iterator[str]:
        if not change():
            yield f"{INVALID}\t\n"
            return
        self._caches.clear()
        ends_at = time.process_time() + self.seconds  # other programs may use the machine too
        items = [self._items[test] for test in tests]
        items[0].session._setupstate.teardown_exact(items[0])  # what the parent's test left set up of its own module
        for item, test, following in zip(items, tests, [*items[1:], None], strict=True):
            if time.process_time() > ends_at:
                return
            signal.setitimer(signal.ITIMER_REAL, max(SECONDS_FOR_A_TEST, 10 * self.coverage.seconds[test]))
            reports = runtestprotocol(item, log=False, nextitem=following or item)
            signal.setitimer(signal.ITIMER_REAL, 0)
            failed = any(report.failed for report in reports)
            yield f"{'failed' if failed else PASSED}\t{test}\n"
            if failed:
                return


def _ending(child: int, status: int, answers: int, folder: Path) -> tuple[str, str, int]:
    """Return how the child ended, by which test, and how many tests it ran; nothing of it is left."""
    with os.fdopen(answers) as said:
        lines = [line.rstrip("\n").split("\t") for line in said if line.endswith("\n")] if status == 0 else []
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # what its tests have started
    shutil.rmtree(folder, ignore_errors=True)
    if os.WIFSIGNALED(status):
        return "timeout", "", 0
    last, test = lines[-1] if lines else ("died", "")
    count = len(lines)
    return (
        {"failed": "killed", INVALID: INVALID, PASSED: "survived"}.get(last, "timeout"),
        test if last == "failed" else "",
        count,
    )


def _function_of(mutant: Mutant) -> str:
    return mutant.id.partition(":")[0]


def _use_own_database_and_files(folder: Path) -> None:
    """Two forks at once would give a test the same folder of files, and one of them would delete it under the other."""
    from django.conf import settings
    from django.db import connections

    copied = shutil.copy(connections["default"].settings_dict["NAME"], folder / "database.sqlite3")
    connections["default"].settings_dict["NAME"] = str(copied)
    settings.MEDIA_ROOT = folder / "files"


def _live_functions(paths: set[str]) -> dict[tuple[str, str, int], list[FunctionType]]:
    found: dict[tuple[str, str, int], list[FunctionType]] = {}
    gc.unfreeze()  # frozen objects (`conftest.py`) are in no list
    for it in gc.get_objects():
        if type(it) is FunctionType and it.__code__.co_filename in paths:
            code = it.__code__
            found.setdefault((code.co_filename, code.co_qualname, code.co_firstlineno), []).append(it)
    return found


def _mutate(module: Module, mutant: Mutant, live: dict[tuple[str, str, int], list[FunctionType]]) -> bool:
    """Put the changed code into every live function that has the sound one; false where there is none to change."""
    try:
        changed = module.code_of(mutant)
    except (SyntaxError, ValueError):
        return False
    done = False
    for place, sound in module.code.items():
        other = changed.get(place)
        if other is None or other == sound:
            continue
        for function in live.get((str(module.path), place[0], place[1]), []):
            if _is_same(function.__code__, sound):
                try:
                    function.__code__ = other
                except ValueError:  # it closes over other names now
                    return False
                done = True
    return done


def _is_same(live: CodeType, compiled: CodeType) -> bool:
    """Compare without what the interpreter notes in code that has run: on 3.11 it makes equal code unequal."""
    return (live.co_code, live.co_names, live.co_varnames) == (
        compiled.co_code,
        compiled.co_names,
        compiled.co_varnames,
    )


def all_of(outcomes: Iterable[Outcome], how: str) -> list[Outcome]:
    return [outcome for outcome in outcomes if outcome.how == how]


def as_json(outcomes: Iterable[Outcome]) -> str:
    rows = [{"mutant": it.mutant.id, "how": it.how, "by": it.by, "tests": it.tests} for it in outcomes]
    return json.dumps(rows, indent=1)
