"""kill -9 before every write, before every COMMIT and after it, in every use case: it happened completely or not at
all, and the repeated call completes it once.

A use case without a scene in ``tests.crashes.use_cases`` fails here, and so does a scene that does not reach its use
case.
"""

from __future__ import annotations

import ast
import importlib
import os
import random
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from ledger.errors import Refusal
from reviewqueue import tasks
from runs.models import Run
from tests import figures
from tests.crashes import database_states
from tests.crashes.durable_writes import KillPoint, die, watched
from tests.crashes.use_cases import (
    VERBS,
    Act,
    Verb,
    attachments,
    checkpoint_files,
    effects,
    inbox_preferences,
    interrupts,
    notifications,
    planted_requests,
    rollups,
    runs,
    webhooks,
    workers,
)
from tests.races.invariants import breaches

pytestmark = [
    pytest.mark.postgresql,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("emptied_at_the_end"),
]

ROOT = Path(__file__).resolve().parents[2]
LONG = bool(os.environ.get("REVIEWQUEUE_LONG"))
ROUNDS = 5 if LONG else 1
#: Of the writes of one transaction beside its last, in the short form.
OTHERS = 1
CHANCE = random.Random(figures.SEED)
TABLE = (
    runs,
    workers,
    interrupts,
    effects,
    checkpoint_files,
    attachments,
    inbox_preferences,
    webhooks,
    notifications,
    planted_requests,
    rollups,
)  # importing them writes the lines

Change = tuple[list[database_states.Row], list[database_states.Row]]


@pytest.fixture(autouse=True)
def mail_server(settings):
    """Without a mail server, no notification is derived."""
    settings.EMAIL_HOST = "mail.example.org"


def test_every_use_case_has_a_scene():
    killed = {verb.use_case for verb in VERBS}
    assert sorted(use_cases() - killed) == [], "write a scene for it in tests/crashes/use_cases"
    assert sorted(killed - use_cases()) == [], "no such use case any more"
    assert len({verb.words for verb in VERBS}) == len(VERBS)


def use_cases() -> set[str]:
    """Every function that the product runs in a transaction of its own, found in its sources."""
    found = set()
    for package in ("ledger", "runs", "reviewqueue"):
        for path in sorted((ROOT / package).rglob("*.py")):
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.FunctionDef) and "use_case" in {ast.unparse(it) for it in node.decorator_list}:
                    found.add(f"{module}.{node.name}")
    return found


@pytest.mark.proves(1, 4)
@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.words.replace(" ", "_"))
def test_a_killed_verb_happened_or_did_not(verb: Verb):
    for _ in range(ROUNDS):
        whole = play_whole(verb)
        kill_before_its_first_commit(verb, whole)
        for moment in whole.moments:
            if moment.commits:
                kill_between_or_after(verb, whole, moment)


@dataclass(frozen=True, kw_only=True)
class Whole:
    """A use case that ran without interruption: its kill points, its changes, and the states between its transactions."""

    moments: list[KillPoint]
    change: Change
    parts: dict[int, Change] = field(default_factory=dict)

    @property
    def last(self) -> int:
        return max((moment.commits for moment in self.moments), default=0)


def play_whole(verb: Verb) -> Whole:
    act, before = a_scene(verb)
    with watched() as watch, reached(verb.use_case) as calls:
        said = outcome(act)
    assert said == verb.says
    assert not any("auth_" in moment.words for moment in watch.moments), "the call sets its own scene"
    assert calls["it"], f"the scene does not reach {verb.use_case}"
    once = database_states.changed(before, database_states.rows())
    assert_unbroken("called once")
    assert outcome(act) == (verb.then or verb.says)
    if not verb.another:
        assert_alike(
            database_states.changed(before, database_states.rows()), once, "the same call again did something more"
        )
    else:
        assert_unbroken("called twice")
    return Whole(moments=watch.moments, change=once)


def kill_before_its_first_commit(verb: Verb, whole: Whole) -> None:
    """Nothing is committed, so one scene is enough for all of these kill points. Then the call is repeated."""
    act, before = a_scene(verb)
    for moment in chosen([moment for moment in whole.moments if moment.commits == 0]):
        die(act, at=moment)
        assert database_states.rows() == before, f"killed {moment.words}, it left something"
        figures.count("kills at a durable write, nothing of it on disk yet", "as if it had never been called")
    assert outcome(act) == verb.says
    assert_alike(database_states.changed(before, database_states.rows()), whole.change, "called again after a kill")


def kill_between_or_after(verb: Verb, whole: Whole, moment: KillPoint) -> None:
    """Some or all of its transactions are committed: the kill leaves exactly those, and the repeated call does the
    rest.
    """
    act, before = a_scene(verb)
    die(act, at=moment)
    left = database_states.changed(before, database_states.rows())
    if moment.commits < whole.last:
        assert_unbroken(f"killed {moment.words} {moment.commits}")  # the whole change was judged when it was played
    whole_or_part = whole.change if moment.commits == whole.last else whole.parts.setdefault(moment.commits, left)
    assert_alike(left, whole_or_part, f"killed {moment.words}")
    said = outcome(act)
    if verb.swept:
        tasks.sweep()
    if not verb.another:
        assert said in {verb.says, verb.then}
        assert_alike(
            database_states.changed(before, database_states.rows()),
            whole.change,
            f"called again, killed {moment.words}",
        )
    else:
        assert_unbroken(f"called again, killed {moment.words} {moment.commits}")
    figures.count("kills at a durable write, some of it on disk", "whole transactions, once when called again")


@pytest.mark.proves(4)
@pytest.mark.parametrize(
    "use_case",
    ["reviewqueue.resume_gateway._decide", "runs.use_cases.suspend._suspend", "runs.use_cases.control_run.cancel_run"],
)
def test_without_its_transaction_a_verb_is_left_half_done(use_case: str):
    verb = next(verb for verb in VERBS if verb.use_case == use_case)
    whole = play_whole(verb)
    last_write = next(it for it in reversed(whole.moments) if it.commits == 0 and it.words != "before COMMIT")
    act, before = a_scene(verb)

    die(act, at=last_write, in_pieces=True)

    assert database_states.rows() != before
    assert database_states.changed(before, database_states.rows()) != whole.change


def chosen(moments: list[KillPoint]) -> list[KillPoint]:
    """In the short form: before the last write, before some other, and before COMMIT."""
    writes = [moment for moment in moments if "COMMIT" not in moment.words]
    if LONG or len(writes) <= 1 + OTHERS:
        return moments
    struck = {writes[-1], *CHANCE.sample(writes[:-1], OTHERS)}
    return [moment for moment in moments if moment in struck or moment not in writes]


# --- looking ----------------------------------------------------------------------------------------------------------


def a_scene(verb: Verb) -> tuple[Act, Counter[database_states.Row]]:
    database_states.clear()
    act = verb.scene()
    return act, database_states.rows()


def outcome(act: Act) -> str:
    """Make the call and return the code of its refusal, or an empty text."""
    try:
        act()
    except Refusal as refusal:
        return refusal.code
    return ""


def assert_alike(left: Change, right: Change, when: str) -> None:
    for place, sign in enumerate("-+"):
        here, there = Counter(left[place]), Counter(right[place])
        assert here == there, (
            f"{when}: {sign} {list((here - there).elements())} is not {list((there - here).elements())}"
        )


def assert_unbroken(when: str) -> None:
    broken = {run.public_id: found for run in Run.objects.all() if (found := breaches(run.pk))}
    assert broken == {}, when


@contextmanager
def reached(use_case: str) -> Iterator[Counter[str]]:
    """Count the calls of the function that the use case wraps."""
    module, _, name = use_case.rpartition(".")
    code: Any = getattr(importlib.import_module(module), name).__wrapped__.__code__
    calls: Counter[str] = Counter()

    def look(frame: FrameType, event: str, _arg: object) -> None:
        if event == "call" and frame.f_code is code:
            calls["it"] += 1

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        yield calls
    finally:
        sys.setprofile(before)
