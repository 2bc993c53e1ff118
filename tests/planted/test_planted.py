"""Every planted fault fails the test that must detect it, and without the fault that test passes."""

from __future__ import annotations

import functools
import inspect
import os
import traceback
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection

import pytest
from django.db import connections, transaction

from tests import builders, figures
from tests.planted.faults import FAULTS, Fault

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("emptied_at_the_end")]

SECONDS = 120
costs = pytest.mark.proves  # a fault counts for the promises that it would cost
GREEN = ""


@pytest.mark.parametrize(
    "fault",
    [pytest.param(fault, marks=costs(*fault.costs), id=fault.words.replace(" ", "_")) for fault in FAULTS],
)
def test_a_planted_fault_is_caught(fault: Fault):
    assert is_green(fault.seen_by), "the test is red without the fault"
    assert seen(fault.seen_by, plant=fault.plant) != GREEN, f"{fault.seen_by.__name__} does not see that {fault.words}"
    if fault.costs:
        figures.count("faults planted", "each caught by its test")


def test_the_faults_are_many_and_each_has_a_name_of_its_own():
    assert len({fault.words for fault in FAULTS}) == len(FAULTS) >= 20


@functools.cache
def is_green(test: Callable[..., None]) -> bool:
    """Tell whether the test passes without a fault, once for all faults that it detects."""
    return seen(test, plant=lambda: None) == GREEN


def seen(test: Callable[..., None], *, plant: Callable[[], None]) -> str:
    """Run the test in a separate process with the planted fault; returns the failure, or an empty text."""
    connections.close_all()  # two processes must not share a connection
    ours, theirs = get_context("fork").Pipe()
    process = get_context("fork").Process(target=_run, args=(theirs, test, plant), daemon=True)
    process.start()
    theirs.close()
    try:
        assert ours.poll(SECONDS), "the test says nothing"
        return str(ours.recv())
    finally:
        process.join(SECONDS)


def _run(pipe: Connection, test: Callable[..., None], plant: Callable[[], None]) -> None:
    plant()
    kept_apart = transaction.atomic()
    kept_apart._from_testcase = True  # type: ignore[attr-defined]  # the use cases open their own transactions in it
    kept_apart.__enter__()
    try:
        test(**_asked_for(test))
        pipe.send(GREEN)
    except BaseException:  # noqa: BLE001  whatever turns the test red is what is asked for
        pipe.send(traceback.format_exc())
    finally:
        transaction.set_rollback(True)
        kept_apart.__exit__(None, None, None)
        connections.close_all()
        os._exit(0)


def _asked_for(test: Callable[..., None]) -> dict[str, object]:
    """Make the fixtures that these tests need; of a parametrized test, the first case."""
    made: dict[str, Callable[[], object]] = {"ana": builders.a_reviewer, "monkeypatch": pytest.MonkeyPatch}
    for mark in getattr(test, "pytestmark", []):
        if mark.name == "parametrize":
            name, (first, *_) = mark.args
            made[name] = lambda first=first: first  # type: ignore[misc]
    return {name: made[name]() for name in inspect.signature(test).parameters}
