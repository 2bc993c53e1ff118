"""What a person is about to say to a wait: the parts of the decide form, as drawn and as read back.

Called by ``deciding``. A draft is made from the screen of a wait and, after a submission, from what was typed: nothing typed
is ever lost, and what is wrong stands at its field. A verdict counts only if its own button was pressed. The gateway judges
afterwards; a draft decides nothing.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ledger import exact
from ledger.canonical import digest
from ledger.errors import Problem
from reviewqueue.gateway import Seen
from reviewqueue.pages.forms import Absent, Form, Reading, build_edit_form, build_form, read_submission
from reviewqueue.screens import WaitScreen
from runs.decisions import MESSAGE_LIMIT, Answer
from runs.models import Fact, Interrupt
from runs.states import APPROVING, Verdict

Post = Mapping[str, Any]
NO_VERSION = 0  # the first is 1
_NONCE = re.compile(r"[A-Za-z0-9_-]{8,60}")


@dataclass(frozen=True, kw_only=True)
class _Words:
    """How a verdict is offered: its name, what it does, the letter that chooses it, its button."""

    title: str
    hint: str
    key: str
    button: str
    message: str
    tone: str = "solid"
    message_required: bool = False


OFFERS: dict[str, _Words] = {
    Verdict.APPROVE: _Words(
        title="Approve",
        hint="The agent may make exactly this call, once.",
        key="a",
        button="Approve",
        message="Note for the record",
    ),
    Verdict.EDIT: _Words(
        title="Change, then approve",
        hint="You change the call; only your version may run.",
        key="e",
        button="Review my changes",
        message="Note for the record",
    ),
    Verdict.REJECT: _Words(
        title="Reject",
        hint="The call is not made. The agent gets your reason and goes on.",
        key="r",
        button="Reject this call",
        message="Reason, sent to the agent",
        tone="bad",
    ),
    Verdict.RESPOND: _Words(
        title="Ask for more",
        hint="Closes this wait. The agent reads your question and may ask again.",
        key="m",
        button="Send question",
        message="Question to the agent",
        message_required=True,
    ),
    Verdict.ANSWER: _Words(
        title="Answer",
        hint="The agent gets what you fill in, and goes on.",
        key="a",
        button="Send this answer",
        message="Note to the agent",
    ),
    Verdict.DECLINE: _Words(
        title="I can’t answer this",
        hint="The agent is told that the answer will not come. It closes this wait.",
        key="r",
        button="Decline to answer",
        message="Reason, sent to the agent",
        tone="bad",
    ),
}


@dataclass(frozen=True, kw_only=True)
class Tick:
    """A changed fact that has to be confirmed; the value sent names what was seen, so an older one confirms nothing."""

    fact: Fact
    name: str
    value: str
    is_ticked: bool
    problem: str = ""


@dataclass(frozen=True, kw_only=True)
class Part:
    """One verdict of the form, with all that belongs to it."""

    verdict: str
    words: _Words
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
        wrong = [(f"tick-{tick.fact.pk}-{self.verdict}", tick.problem) for tick in self.ticks if tick.problem]
        if self.message_problem:
            wrong.append((f"message-{self.verdict}", self.message_problem))
        return tuple(wrong)


@dataclass(frozen=True, kw_only=True)
class Draft:
    """The whole form: its parts, what was seen, and the key that makes a double post one decision."""

    interrupt: Interrupt
    parts: tuple[Part, ...]
    seen: Seen
    request_key: str
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


def new_draft(screen: WaitScreen) -> Draft:
    """Return the form as nobody has touched it: nothing is chosen."""
    return _Drafting(screen, None, judge=False).draft()


def read_draft(screen: WaitScreen, post: Post, *, judge: bool) -> Draft:
    """Return the form with what was typed. ``judge`` False: only shown again, nothing is said about faults."""
    return _Drafting(screen, post, judge=judge).draft()


def told(draft: Draft, words: str) -> Draft:
    """Return the draft with a sentence above it that says why nothing was sent."""
    return replace(draft, nothing_pressed=words)


def changes_of(draft: Draft) -> list[Change]:
    """Return what the edit changes, member by member; empty when it changes nothing."""
    proposed = draft.interrupt.proposal["arguments"]
    edited = draft.answer().arguments
    before = proposed if isinstance(proposed, dict) else {"": proposed}
    after = edited if isinstance(edited, dict) else {"": edited}
    names = [*before, *(name for name in after if name not in before)]
    changes = []
    for name in names:
        old, new = before.get(name, exact.ABSENT), after.get(name, exact.ABSENT)
        is_same = exact.ABSENT not in (old, new) and digest(old) == digest(new)
        changes.append(Change(name=name, old=old, new=new, is_same=is_same))
    return changes


@dataclass(frozen=True, kw_only=True)
class Change:
    """One argument before and after an edit; ``ABSENT`` where it is not there."""

    name: str
    old: Any
    new: Any
    is_same: bool

    @property
    def is_gone(self) -> bool:
        """Say whether the argument was taken out."""
        return self.new is exact.ABSENT

    @property
    def is_added(self) -> bool:
        """Say whether the argument is new."""
        return self.old is exact.ABSENT


class _Drafting:
    def __init__(self, screen: WaitScreen, post: Post | None, *, judge: bool) -> None:
        self.screen = screen
        self.interrupt = screen.interrupt
        self.post = post
        self.judge = judge
        self.chosen = self.text("verdict") if self.text("verdict") in self.interrupt.verdicts else ""

    def text(self, name: str) -> str:
        """Return what was typed into one control, line ends as line feeds."""
        return str(self.post.get(name, "")).replace("\r\n", "\n") if self.post is not None else ""

    def draft(self) -> Draft:
        pressed = self.text("act")
        return Draft(
            interrupt=self.interrupt,
            parts=tuple(self.part(verdict) for verdict in self.interrupt.verdicts),
            seen=self.seen(),
            request_key=self.request_key(),
            pressed=pressed,
            nothing_pressed=self.not_pressed(pressed) if self.judge else "",
        )

    def request_key(self) -> str:
        """Return the key of the form that was sent, so that a double post is one decision; a new one for a new form."""
        sent = self.text("request_key")
        return sent if _NONCE.fullmatch(sent) else secrets.token_urlsafe(16)

    def seen(self) -> Seen:
        """Return the version that the person saw: the one of the form that was sent, or of the form that is drawn now.

        A form that names no version was not drawn by us, and nobody can tell what its sender saw: it counts as stale.
        """
        if not self.judge:
            return Seen(state_version=self.interrupt.state_version, content_digest=self.interrupt.content_digest)
        version = self.text("state_version")
        names_one = version.isascii() and version.isdigit() and len(version) < 10
        seen = int(version) if names_one else NO_VERSION
        return Seen(state_version=seen, content_digest=self.text("content_digest")[:80])

    def not_pressed(self, pressed: str) -> str:
        """Say why nothing was decided, where the choice and the button are not the same act."""
        if not self.chosen:
            return "Choose what you decide first. Nothing was sent."
        act = pressed.partition("-")[0]
        if act != self.chosen:
            offered = OFFERS[self.chosen]
            return f"You chose “{offered.title}”. Press “{offered.button}” to do that; nothing was sent."
        return ""

    def part(self, verdict: str) -> Part:
        is_chosen = verdict == self.chosen
        judge = self.judge and is_chosen
        message = self.text(f"message-{verdict}")
        form = self.answer_form(verdict)
        edit_form = self.edit_form() if verdict == Verdict.EDIT else None
        return Part(
            verdict=verdict,
            words=OFFERS[verdict],
            is_chosen=is_chosen,
            message=message,
            message_problem=self.message_problem(verdict, message) if judge else "",
            form=form,
            reading=self.reading(form, judge=judge),
            edit_form=edit_form,
            edit_reading=self.reading(edit_form, judge=judge),
            ticks=self.ticks(verdict, judge=judge),
        )

    def answer_form(self, verdict: str) -> Form | None:
        """Return the form of the input schema, for the verdicts that take an input."""
        schema = self.interrupt.schema
        if verdict == Verdict.ANSWER:
            return build_form(True if schema is None else schema.body, prefix="input")
        if verdict in APPROVING and schema is not None:
            return build_form(schema.body, prefix=f"input-{verdict}")
        return None

    def edit_form(self) -> Form:
        proposal = self.interrupt.proposal
        if "schema" in proposal:
            return build_form(proposal["schema"], proposed=proposal["arguments"], prefix="arguments")
        return build_edit_form(proposal["arguments"], prefix="arguments")

    def reading(self, form: Form | None, *, judge: bool) -> Reading | None:
        if form is None or self.post is None:
            return None
        if not any(str(name).partition(".")[0] == form.prefix for name in self.post):
            return read_submission(form, self.post) if judge else None
        reading = read_submission(form, self.post)
        return reading if judge else replace(reading, problems=())

    def message_problem(self, verdict: str, message: str) -> str:
        if OFFERS[verdict].message_required and not message.strip():
            return "Say what you ask."
        if len(message) > MESSAGE_LIMIT:
            return f"This is longer than {MESSAGE_LIMIT} characters."
        return "This holds a character that cannot be stored." if "\x00" in message else ""

    def ticks(self, verdict: str, *, judge: bool) -> tuple[Tick, ...]:
        if verdict not in APPROVING:
            return ()
        ticks = []
        for fact in self.screen.changed:
            name, value = f"seen-{fact.pk}-{verdict}", digest(fact.last_value)
            is_ticked = self.text(name) == value
            problem = "Confirm that you have seen this change." if judge and not is_ticked else ""
            ticks.append(Tick(fact=fact, name=name, value=value, is_ticked=is_ticked, problem=problem))
        return tuple(ticks)


def _value(reading: Reading | None) -> Any:
    """Return what a form says, in the words of the gateway."""
    if reading is None or isinstance(reading.value, Absent):
        return exact.ABSENT
    return reading.value
