"""The checker itself: a correct history holds, and each planted fault breaks the promise that it names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.nemesis import checker
from tests.nemesis.evidence import (
    Checkpoint,
    Continuation,
    Database,
    Decision,
    Effect,
    Event,
    Interrupt,
    Message,
    Run,
    Truth,
)
from tests.nemesis.history import OK, REFUSED, Call, Record, read
from tests.nemesis.verdicts import BROKEN, HOLDS, UNKNOWN, Evidence


def a_call(verb: str, at: float, *, outcome: str = OK, status: int = 201, code: str = "", **members: dict) -> Call:
    about, told = members.get("about", {}), members.get("told", {})
    return Call(
        client="agent-1",
        verb=verb,
        about=about,
        began=at,
        ended=at + 0.1,
        outcome=outcome,
        status=status,
        code=code,
        told=told,
    )


def in_order() -> Evidence:
    """Two runs: one was approved, acted once and completed; one was approved, cancelled and compensated."""
    begun = {"run": "run_1", "effect": "order", "fence": 2, "until": 9.0}
    calls = [
        a_call("create", 0, about={"key": "one"}, told={"run": "run_1"}),
        a_call("create", 0.5, about={"key": "one"}, told={"run": "run_1"}, status=200),
        a_call("create", 1, about={"key": "two"}, told={"run": "run_2"}),
        a_call("suspend", 2, about={"run": "run_1", "fence": 1, "until": 5.0}),
        a_call("decide", 3, about={"interrupt": "int_1"}, told={"decision": "dec_1", "status": "accepted"}),
        a_call(
            "decide",
            3,
            about={"interrupt": "int_1"},
            outcome=REFUSED,
            status=409,
            told={"winner": {"decision": "dec_1"}},
        ),
        a_call("claim", 4, told={"claimed": [{"run": "run_1", "fence": 2, "number": 1}]}),
        a_call("begin", 5, about=begun, told={"perform": True}),
        a_call("report", 6, about={"run": "run_1", "status": "applied"}),
        a_call("pause", 7, about={"run": "run_1"}, status=200),
        a_call("resume", 8, about={"run": "run_1"}, status=200),
        a_call("create", 9, about={"key": "three"}, outcome=UNKNOWN, status=503, code="busy"),
    ]
    database = Database(
        now=1000.0,
        runs=[Run(id="run_1", key="one"), Run(id="run_2", key="two", status="cancelled")],
        interrupts=[
            Interrupt(id="int_1", run="run_1", deadline=10.0, closed_at=3.0),
            Interrupt(id="int_2", run="run_2", checkpoint=2, status="expired", deadline=10.0, closed_at=10.5),
        ],
        decisions=[Decision(id="dec_1", interrupt="int_1", at=3.0)],
        continuations=[Continuation(run="run_1")],
        checkpoints=[Checkpoint(run="run_1", number=0, fence=1), Checkpoint(run="run_1", number=1, fence=2)],
        effects=[
            Effect(id="eff_1", run="run_1", key="order"),
            Effect(
                id="eff_2", run="run_2", key="first", status="compensated", compensated_by="declared", begun_at=20.0
            ),
            Effect(
                id="eff_3", run="run_2", key="second", status="compensated", compensated_by="declared", begun_at=21.0
            ),
            Effect(id="eff_4", run="run_2", key="undo:eff_3:1", undoes="eff_3"),
            Effect(id="eff_5", run="run_2", key="undo:eff_2:1", undoes="eff_2"),
        ],
        events=[
            Event(run="run_1", seq=1, type="effect.begun", effect="order"),
            Event(run="run_1", seq=2, type="run.pause_asked"),
            Event(run="run_1", seq=3, type="run.resumed"),
        ],
        messages=[Message(id="msg_1")],
    )
    done = {
        "run_1/order": [5.5],
        "run_2/first": [20.0],
        "run_2/second": [21.0],
        "run_2/undo:eff_3:1": [30.0],
        "run_2/undo:eff_2:1": [31.0],
    }
    return Evidence(calls=calls, database=database, truth=Truth(done=done, messages={"msg_1": 2}))


def verdicts(evidence: Evidence) -> dict[int, str]:
    """Return the worst verdict on each promise."""
    told: dict[int, str] = {}
    for verdict in checker.judge(evidence):
        worst = told.get(verdict.promise, HOLDS) if verdict.verdict == HOLDS else verdict.verdict
        told[verdict.promise] = BROKEN if told.get(verdict.promise) == BROKEN else worst
    return told


def test_a_history_in_order_holds_every_promise():
    assert set(verdicts(in_order()).values()) == {HOLDS}


# --- planted faults ---------------------------------------------------------------------------------------------------

Plant = Callable[[Evidence], Evidence]


def with_rows(**rows: list) -> Plant:
    """Add rows to the database."""

    def plant(it: Evidence) -> Evidence:
        more = {name: [*getattr(it.database, name), *added] for name, added in rows.items()}
        return replace(it, database=replace(it.database, **more))

    return plant


def changed(kind: str, which: str, **fields: object) -> Plant:
    """Change one row of the database."""

    def plant(it: Evidence) -> Evidence:
        rows = [replace(row, **fields) if row.id == which else row for row in getattr(it.database, kind)]
        return replace(it, database=replace(it.database, **{kind: rows}))

    return plant


def without(kind: str, **members: object) -> Plant:
    def plant(it: Evidence) -> Evidence:
        rows = [row for row in getattr(it.database, kind) if any(getattr(row, k) != v for k, v in members.items())]
        return replace(it, database=replace(it.database, **{kind: rows}))

    return plant


def done(name: str, times: list[float]) -> Plant:
    """Change the receiver's count."""
    return lambda it: replace(it, truth=replace(it.truth, done={**it.truth.done, name: times}))


def called(*calls: Call) -> Plant:
    return lambda it: replace(it, calls=[*it.calls, *calls])


PLANTED: dict[str, tuple[int, Plant]] = {
    "a create that got and is lost": (1, without("runs", id="run_2")),
    "one key, two runs": (2, with_rows(runs=[Run(id="run_3", key="one")])),
    "one key, clients got two runs": (
        2,
        called(a_call("create", 1.5, about={"key": "two"}, told={"run": "run_1"}, status=200)),
    ),
    "two accepted answers of one interrupt": (
        3,
        with_rows(decisions=[Decision(id="dec_2", interrupt="int_1", at=3.1)]),
    ),
    "an answer acknowledged as accepted that is not": (
        3,
        called(a_call("decide", 3, about={"interrupt": "int_1"}, told={"decision": "dec_9", "status": "accepted"})),
    ),
    "a refused client is shown a winner that did not win": (
        3,
        called(
            a_call(
                "decide",
                3,
                about={"interrupt": "int_1"},
                outcome=REFUSED,
                status=409,
                told={"winner": {"decision": "dec_7"}},
            )
        ),
    ),
    "decided, and never continued": (
        4,
        lambda it: without("continuations", run="run_1")(changed("runs", "run_1", status="waiting")(it)),
    ),
    "ready for ever after its answer": (4, changed("runs", "run_1", status="ready")),
    "an effect done twice": (5, done("run_1/order", [5.5, 7.0])),
    "an effect recorded as applied that was not done": (5, done("run_1/order", [])),
    "an effect recorded as failed that was done": (5, changed("effects", "eff_1", status="failed")),
    "an effect that no worker had begun": (5, done("run_1/bribe", [5.0])),
    "an unknown outcome without an owner": (6, changed("effects", "eff_1", status="unknown", owned=False)),
    "an answer accepted after the deadline": (7, changed("decisions", "dec_1", at=10.0)),
    "an answer after the deadline acknowledged as accepted": (
        7,
        called(a_call("decide", 11, about={"interrupt": "int_1"}, told={"decision": "dec_1", "status": "accepted"})),
    ),
    "an interrupt that stays open after its deadline": (
        8,
        changed("interrupts", "int_2", status="waiting", closed_at=None),
    ),
    "an interrupt that expired and was answered": (
        8,
        with_rows(decisions=[Decision(id="dec_3", interrupt="int_2", at=9.0)]),
    ),
    "a stale lease's checkpoint in the chain": (
        9,
        with_rows(checkpoints=[Checkpoint(run="run_1", number=2, fence=1)]),
    ),
    "a stale lease begins an effect": (
        9,
        called(a_call("begin", 5, about={"run": "run_1", "effect": "order", "fence": 1}, told={"perform": True})),
    ),
    "a message recorded as delivered that never arrived": (10, with_rows(messages=[Message(id="msg_2")])),
    "an effect compensated twice": (15, done("run_2/undo:eff_3:1", [30.0, 32.0])),
    "the oldest effect compensated first": (15, done("run_2/undo:eff_3:1", [31.5])),
    "an effect of a cancelled run that stays": (15, changed("effects", "eff_3", status="applied")),
    "an effect recorded as compensated that was not": (15, done("run_2/undo:eff_3:1", [])),
    "an effect begun after its pause was acknowledged": (
        16,
        called(a_call("begin", 7.5, about={"run": "run_1", "effect": "more", "fence": 2}, told={"perform": True})),
    ),
    "an effect begun between pause and resume on the timeline": (
        16,
        with_rows(
            events=[
                Event(run="run_2", seq=1, type="run.pause_asked"),
                Event(run="run_2", seq=2, type="effect.begun", effect="first"),
            ]
        ),
    ),
    "a client meets a server error": (17, called(a_call("look", 5, outcome=UNKNOWN, status=500))),
    "an interrupt that expires before its deadline": (19, changed("interrupts", "int_2", closed_at=9.0)),
    "a lease taken before its end": (
        19,
        called(
            a_call(
                "begin",
                40,
                about={"run": "run_4", "effect": "more", "fence": 2, "until": 45.0},
                outcome=REFUSED,
                status=409,
                code="lease_lost",
            )
        ),
    ),
    "a half state in the database": (17, with_rows(breaches=["run_1: two open continuations"])),
}


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_turns_its_promise_red(fault: str):
    promise, plant = PLANTED[fault]
    assert verdicts(plant(in_order()))[promise] == BROKEN


def test_every_check_has_a_planted_fault():
    assert {promise for promise, _ in PLANTED.values()} == {promise for promise, _ in checker.CHECKS}


# --- unknown results --------------------------------------------------------------------------------------------------


def test_an_outcome_that_no_client_learnt_is_unknown_and_neither_broken_nor_held():
    told = changed("effects", "eff_1", status="unknown")(done("run_1/order", [])(in_order()))
    assert verdicts(told)[5] == UNKNOWN
    [words] = [verdict.words for verdict in checker.judge(told) if verdict.promise == 5]
    assert words == ["run_1/order is unknown; the receiver has it 0 times"]


def test_a_message_still_on_its_way_is_unknown():
    assert verdicts(with_rows(messages=[Message(id="msg_2", status="due")])(in_order()))[10] == UNKNOWN


def test_an_answered_run_that_its_owner_holds_is_unknown():
    assert verdicts(changed("runs", "run_1", status="blocked", held=True)(in_order()))[4] == UNKNOWN


def test_an_ordered_effect_may_be_done_once_more_for_each_order():
    ordered = changed("effects", "eff_1", orders=1)(done("run_1/order", [5.5, 7.0])(in_order()))
    assert verdicts(ordered)[5] == HOLDS


# --- the history ------------------------------------------------------------------------------------------------------


def test_a_call_whose_client_was_killed_is_unknown(tmp_path):
    record = Record(tmp_path, "agent-1")
    told = record.begin("create", {"key": "one"})
    record.begin("create", {"key": "two"})
    record.end(told, outcome=OK, status=201, told={"run": "run_1"})
    record.close()
    first, second = read(tmp_path)
    assert (first.outcome, first.told) == (OK, {"run": "run_1"})
    assert (second.outcome, second.ended, second.about) == (UNKNOWN, None, {"key": "two"})


def test_half_a_line_of_a_killed_client_is_no_call(tmp_path):
    record = Record(tmp_path, "agent-1")
    record.begin("create", {"key": "one"})
    record.close()
    [path] = tmp_path.glob("*.history")
    path.write_text(path.read_text() + '{"number": 2, "clie')
    assert len(read(tmp_path)) == 1
