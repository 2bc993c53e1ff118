"""What a person is about to say to a wait: the parts of the decide form, and the answer they make.

Made by ``drafting``, drawn by the templates. The gateway judges afterwards; a draft decides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ledger import exact_json
from ledger.errors import Problem
from reviewqueue.gateway import Seen
from reviewqueue.pages.interrupt.changes_since_opened import Amended
from reviewqueue.pages.interrupt.verdict_labels import Offer
from reviewqueue.pages.schema_forms import Absent, Form, Reading
from reviewqueue.text.hidden_characters import Warnings
from runs.decisions import Answer
from runs.models import Fact, Interrupt


@dataclass(frozen=True, kw_only=True)
class Tick:
    """What must be confirmed: a changed ``fact``, a disguise in the call (``warnings``), the parts of the request that the
    page does not show whole (``left_out``), or (none of these) that the question was amended since it was opened.

    The value sent names what was seen, so that an older tick confirms nothing.
    """

    id: str
    fact: Fact | None
    name: str
    value: str
    is_ticked: bool
    problem: str = ""
    warnings: Warnings | None = None
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Part:
    """One verdict of the form, with all that belongs to it."""

    verdict: str
    words: Offer
    is_chosen: bool
    message: str = ""
    message_problem: str = ""
    form: Form | None = None
    reading: Reading | None = None
    edit_form: Form | None = None
    edit_reading: Reading | None = None
    ticks: tuple[Tick, ...] = ()

    @property
    def is_wrong(self) -> bool:
        """Say whether something in it needs another look."""
        readings = (self.reading, self.edit_reading)
        return (
            bool(self.message_problem)
            or any(tick.problem for tick in self.ticks)
            or any(reading is not None and reading.problems for reading in readings)
        )

    @property
    def lines(self) -> tuple[tuple[str, str], ...]:
        """Return what is wrong outside the forms, as places and words."""
        wrong = [(tick.id, tick.problem) for tick in self.ticks if tick.problem]
        if self.message_problem:
            wrong.append((f"message-{self.verdict}", self.message_problem))
        return tuple(wrong)


@dataclass(frozen=True, kw_only=True)
class Draft:
    """The whole form: its parts, what was seen, and the key that makes a double post one decision.

    ``since``: the version with which its text was begun; ``amended``: what the agent has changed since.
    """

    interrupt: Interrupt
    parts: tuple[Part, ...]
    seen: Seen
    request_key: str
    since: int = 0
    amended: Amended | None = None
    pressed: str = ""
    nothing_pressed: str = ""

    @cached_property
    def chosen(self) -> Part | None:
        """Return the part that was chosen."""
        return next((part for part in self.parts if part.is_chosen), None)

    @property
    def is_wrong(self) -> bool:
        """Say whether it cannot go to the gateway."""
        return self.chosen is None or bool(self.nothing_pressed) or self.chosen.is_wrong

    def answer(self) -> Answer:
        """Return the answer of the chosen part."""
        assert self.chosen is not None  # noqa: S101  the caller asked is_wrong
        part = self.chosen
        return Answer(
            verdict=part.verdict,
            input=_value(part.reading),
            arguments=_value(part.edit_reading),
            message=part.message,
        )

    def with_misfit(self, problems: list[Problem]) -> Draft:
        """Return the draft with what the gateway found wrong, each at its field."""
        assert self.chosen is not None  # noqa: S101  only a chosen part reaches the gateway
        part = self.chosen
        at = {"/input": part.reading, "/arguments": part.edit_reading}
        for prefix, reading in at.items():
            found = [
                Problem(problem.pointer.removeprefix(prefix), problem.message)
                for problem in problems
                if problem.pointer.startswith(prefix)
            ]
            at[prefix] = reading.with_problems(found) if reading is not None and found else reading
        message = next((problem.message for problem in problems if problem.pointer == "/message"), "")
        told = replace(part, reading=at["/input"], edit_reading=at["/arguments"], message_problem=message)
        return replace(self, parts=tuple(told if one is part else one for one in self.parts))


def told(draft: Draft, words: str) -> Draft:
    """Return the draft with a sentence above it that says why nothing was sent."""
    return replace(draft, nothing_pressed=words)


def _value(reading: Reading | None) -> Any:
    """Return what a form says, in the words of the gateway."""
    if reading is None or isinstance(reading.value, Absent):
        return exact_json.ABSENT
    return reading.value
