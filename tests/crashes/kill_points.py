"""Named kill points: just before or after a function of the product, found by module and name.

The product has no hooks for this: the process that must die patches the function in itself. A missing name fails the
test, and so does a kill point that is never reached.
"""

from __future__ import annotations

import functools
import importlib
import multiprocessing
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from typing import Any

from django.db import connections

BEFORE, AFTER = "before", "after"


@dataclass(frozen=True, kw_only=True)
class Point:
    """A kill point at a function. ``module`` is where the function is looked up when it is called."""

    module: str
    function: str
    when: str


def before(module: str, function: str) -> Point:
    return Point(module=module, function=function, when=BEFORE)


def after(module: str, function: str) -> Point:
    return Point(module=module, function=function, when=AFTER)


POINTS = {
    # the answer
    "answer recorded, wait still open": before("reviewqueue.resume_gateway", "answer_interrupt"),
    "wait closed, nothing follows yet": before("runs.interrupts", "_make_continuation_if_answered"),
    "continuation made, timeline without it": before("reviewqueue.resume_gateway", "record_event"),
    "run stored, no task row yet": before("reviewqueue.tasks", "enqueue_check"),
    "task row written, not committed": after("reviewqueue.tasks", "enqueue_check"),
    "answer committed, response lost": after("reviewqueue.resume_gateway", "_decide"),
    # the check
    "check begun, nothing fetched": after("runs.use_cases.reconcile_facts", "begin_revalidation"),
    "facts fetched, not recorded": before("runs.use_cases.reconcile_facts", "finish_revalidation"),
    "check passed, not committed": after("runs.use_cases.reconcile_facts", "save_status"),
    "check committed, task row still there": after("reviewqueue.tasks", "check_continuation"),
    # the claim
    "lease granted, continuation not leased": before("runs.use_cases.claim_continuation", "lease_continuation"),
    "claim written, not committed": after("runs.use_cases.claim_continuation", "_describe_claim"),
    "claim committed, response lost": after("runs.use_cases.claim_continuation", "_claim_next"),
    # the effect
    "effect intended, not committed": after("ledger.effects", "intend_effect"),
    "effect intended, response lost": after("runs.use_cases.begin_effect", "begin_effect"),
    "effect about to be sent": before("tests.crashes.sample_run", "send"),
    "effect done, response lost": after("tests.crashes.sample_run", "send"),
    "outcome recorded, not committed": after("ledger.effects", "report_outcome"),
    "outcome committed, response lost": after("runs.use_cases.report_effect", "report_effect"),
    # the boundary and the end
    "checkpoint written, not committed": before("runs.use_cases.commit_checkpoint", "acknowledge_continuation"),
    "checkpoint committed, response lost": after("runs.use_cases.commit_checkpoint", "commit_checkpoint"),
    "end written, not committed": after("runs.use_cases.complete_run", "end_lease"),
    "end committed, response lost": after("runs.use_cases.complete_run", "complete_run"),
}


def strike_at(point: Point, sign: signal.Signals) -> None:
    """Send this process a signal whenever it reaches the kill point."""
    module = importlib.import_module(point.module)
    inner = getattr(module, point.function)

    @functools.wraps(inner)
    def struck(*args: Any, **kwargs: Any) -> Any:
        if point.when == BEFORE:
            os.kill(os.getpid(), sign)
        result = inner(*args, **kwargs)
        if point.when == AFTER:
            os.kill(os.getpid(), sign)
        return result

    setattr(module, point.function, struck)


def start(
    act: Callable[[], object], *, at: Point, sign: signal.Signals, prepare: Callable[[], None] | None = None
) -> BaseProcess:
    """Start a process that acts and gets the signal at the kill point. ``prepare`` first changes the product in it."""
    connections.close_all()

    def run() -> None:
        if prepare is not None:
            prepare()
        strike_at(at, sign)
        act()
        connections.close_all()

    process = multiprocessing.get_context("fork").Process(target=run, daemon=True)
    process.start()
    return process


def kill(act: Callable[[], object], *, at: Point, prepare: Callable[[], None] | None = None) -> None:
    """Run the action in a process that is killed at the kill point, and return after its death."""
    process = start(act, at=at, sign=signal.SIGKILL, prepare=prepare)
    process.join(60)
    assert process.exitcode == -signal.SIGKILL, f"it was not killed at the point: {process.exitcode}"
