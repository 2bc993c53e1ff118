"""The nemesis: every kind of fault at once, then recovery, then the checker.

The long form: `python3 manage.py test --on postgresql --long --seed 7 tests/nemesis`. When a promise is broken, the
test names the folder with the history.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests import figures
from tests.nemesis import checker, evidence, history
from tests.nemesis.fault_schedule import rage, recover
from tests.nemesis.verdicts import BROKEN, Evidence, Verdict
from tests.nemesis.world import World, a_world, faketime_library

LONG = bool(os.environ.get("REVIEWQUEUE_LONG"))
SECONDS = 600 if LONG else 20
SECONDS_TO_RECOVER = 480  # on a machine that does much else

#: Which promise a harm tries most; the others try that nothing is lost.
PROMISE_OF = {
    "an agent stopped past its lease": 9,
    "all sweeps stopped for a while": 8,
    "immediate restart of the database": 17,
    "a web with a clock an hour wrong": 19,
    "a worker with a clock an hour wrong": 19,
}


@pytest.mark.slow
@pytest.mark.postgresql
@pytest.mark.proves(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 15, 16, 17, 19)
def test_whatever_happens_no_promise_is_broken():
    kept = Path(tempfile.mkdtemp(prefix="reviewqueue-nemesis-"))  # of pytest's own folders other runs take the last
    with a_world(kept, seed=figures.SEED) as world:
        harms = rage(world, seconds=SECONDS, seed=figures.SEED)
        left_open = recover(world, within=SECONDS_TO_RECOVER)
        verdicts, faults = ask_the_judge(world)
    print_verdicts(verdicts, harms, faults)
    assert [str(verdict) for verdict in verdicts if verdict.verdict == BROKEN] == [], f"the history is in {kept}"
    assert left_open == 0, f"the history is in {kept}"
    shutil.rmtree(kept)


def ask_the_judge(world: World) -> tuple[list[Verdict], Counter[str]]:
    truth = world.truth()
    whole = Evidence(
        calls=history.read(world.folder),
        database=evidence.gather(world.rows),
        truth=evidence.Truth(done=truth["done"], messages=truth["messages"]),
    )
    verdicts = checker.judge(whole)
    show_calls_about(broken_runs(verdicts), whole.calls)
    return verdicts, Counter(truth["faults"])


def broken_runs(verdicts: list[Verdict]) -> set[str]:
    words = " ".join(words for verdict in verdicts if verdict.verdict == BROKEN for words in verdict.words)
    return set(re.findall(r"(?:run|int)_\w+", words))


def show_calls_about(things: set[str], calls: Sequence[history.Call]) -> None:
    """Print the calls that name what is broken, and the faults between them."""
    for call in calls if things else ():
        if call.verb == "harm" or any(thing in f"{call.about}{call.told}" for thing in things):
            print(f"{call.began:.2f} {(call.ended or 0) - call.began:6.2f} s", call)  # noqa: T201


def print_verdicts(verdicts: list[Verdict], harms: Counter[str], faults: Counter[str]) -> None:
    """Print the verdict, and count it for its promise."""
    print(json.dumps({"harms": harms, "faults of the receiver": faults}, indent=1))  # noqa: T201  read with -s
    for verdict in verdicts:
        print(verdict)  # noqa: T201
        came = f"0 broken, {len(verdict.words)} unknown" if verdict.verdict != BROKEN else "BROKEN"
        figures.count(f"{verdict.what} under the nemesis", came, n=verdict.n, of=verdict.promise)
    for harm, times in harms.items():
        figures.count(f"times {harm} under the nemesis", "all continued", n=times, of=PROMISE_OF.get(harm, 1))
    if faketime_library() is None:
        figures.count("wrong clocks of the nemesis", "NOT TRIED: no libfaketime (Debian: faketime)", n=0, of=19)
