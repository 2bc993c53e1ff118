"""Runs as their pages draw them: the status in words, what was done outside, the story from top to bottom.

Called by ``views``. What can be done with a run is in ``levers``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.auth.models import AbstractUser

from reviewqueue.pages import phrases
from reviewqueue.pages.calls import labels_of
from reviewqueue.pages.levers import levers_for
from reviewqueue.pages.stories import tell
from reviewqueue.pages.waits import asked, shown_effects
from reviewqueue.screens import RunScreen
from runs.models import Run
from runs.states import ContinuationStatus, InterruptStatus


@dataclass(frozen=True, kw_only=True)
class ShownRun:
    """One run in a list."""

    run: Run
    word: str
    icon: str
    tone: str
    meaning: str


_CONTINUATION_WORDS: dict[str, str] = {
    ContinuationStatus.CHECKING: "being checked again",
    ContinuationStatus.READY: "ready for any free worker",
    ContinuationStatus.LEASED: "taken by a worker",
    ContinuationStatus.ACKNOWLEDGED: "went on; the next boundary was reached",
    ContinuationStatus.VOID: "void",
}


def run_rows(runs: Iterable[Run]) -> list[ShownRun]:
    """Return runs with their status in words."""
    return [_shown(run) for run in runs]


def _shown(run: Run) -> ShownRun:
    word, icon, tone, meaning = phrases.RUN_WORDS[run.status]
    if run.status == "running" and run.pause_asked_at is not None:
        word, icon, tone, meaning = "pausing", "pause", "warn", "It stops at its next safe point."
    return ShownRun(run=run, word=word, icon=icon, tone=tone, meaning=meaning)


def run_context(screen: RunScreen, *, reader: AbstractUser, now: datetime) -> dict[str, Any]:
    """Return everything the page of a run shows."""
    run = screen.run
    calls = [(run.agent_id, effect.call) for effect in screen.effects]
    labels = labels_of([*calls, *((wait.agent_id, wait.proposal) for wait in screen.waits)])
    decisions = {decision.interrupt_id: decision for decision in screen.decisions}
    waits = []
    for wait in screen.waits:
        decision = decisions.get(wait.pk)
        word, icon = phrases.closed_words(wait)
        waits.append(
            {
                "wait": wait,
                "title": asked(wait, labels)[0],
                "queue": phrases.queue_name(wait.queue),
                "then": phrases.then_what(wait),
                "is_open": wait.status == InterruptStatus.WAITING,
                "word": phrases.VERDICT_DONE.get(decision.verdict, word) if decision is not None else word,
                "icon": icon,
                "decision": decision,
            }
        )
    continuation = screen.continuation
    return {
        "section": "runs",
        "now": now,
        "screen": screen,
        "run": run,
        "shown": _shown(run),
        "levers": levers_for(reader, run, screen.effects),
        "effects": shown_effects(screen.effects, run.agent, labels)[::-1],
        "unknown": sum(effect.status == "unknown" for effect in screen.effects),
        "waits": waits[::-1],
        "holds": [(phrases.HOLD_WORDS.get(hold.kind, hold.kind), hold) for hold in screen.holds],
        "story": tell(screen.events, reader=reader, waits=screen.waits),
        "continuation_words": "" if continuation is None else _CONTINUATION_WORDS[continuation.status],
        "last_checkpoint": screen.checkpoints[0] if screen.checkpoints else None,
    }
