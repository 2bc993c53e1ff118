"""Reading the decide form: a draft from the screen of a wait and, after a submission, from what was typed.

Called by ``deciding``. Nothing typed is ever lost, and what is wrong stands at its field. A verdict counts only if its own
button was pressed.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from hashlib import sha256
from typing import Any

from ledger.digests import digest
from reviewqueue.gateway import Seen
from reviewqueue.pages.call_labels import describe_call, labelled, labels_of
from reviewqueue.pages.interrupt import decision_evidence
from reviewqueue.pages.interrupt.changes_since_opened import amended_since
from reviewqueue.pages.interrupt.decision_draft import Draft, Part, Tick
from reviewqueue.pages.interrupt.verdict_labels import OFFERS, offer_of
from reviewqueue.pages.schema_forms import (
    Absent,
    Form,
    Reading,
    Shape,
    build_edit_form,
    build_form,
    change_of,
    read_submission,
)
from reviewqueue.queries.page_queries import WaitScreen
from reviewqueue.text import json_values
from reviewqueue.text.hidden_characters import Warnings, warnings_in
from runs.decisions import MESSAGE_LIMIT
from runs.models import Fact
from runs.states import APPROVING, Verdict

Post = Mapping[str, Any]
NO_VERSION = 0  # the first is 1
_NONCE = re.compile(r"[A-Za-z0-9_-]{8,60}")


def new_draft(screen: WaitScreen) -> Draft:
    """Return the form as nobody has touched it: nothing is chosen."""
    return _Drafting(screen, None, judge=False).draft()


def read_draft(screen: WaitScreen, post: Post, *, judge: bool) -> Draft:
    """Return the form with what was typed. ``judge`` False: only shown again, nothing is said about faults."""
    return _Drafting(screen, post, judge=judge).draft()


def mark_of_fact(fact: Fact) -> str:
    """Return the name of a fact in its form; its primary key would show how many facts others have."""
    scope = "checkpoint" if fact.interrupt_id is None else "wait"
    return sha256(f"{scope} {fact.name}".encode()).hexdigest()[:16]


class _Drafting:
    def __init__(self, screen: WaitScreen, post: Post | None, *, judge: bool) -> None:
        self.screen = screen
        self.interrupt = screen.interrupt
        self.post = post
        self.judge = judge
        self.shape = Shape() if post is None else Shape(post=post, change="" if judge else change_of(post))
        self.since = self.version("since") or self.version("state_version") or self.interrupt.state_version
        self.amended = amended_since(self.interrupt, self.since, facts=screen.facts)
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
            since=self.since,
            amended=self.amended,
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
        return Seen(state_version=self.version("state_version"), content_digest=self.text("content_digest")[:80])

    @cached_property
    def left_out(self) -> tuple[str, ...]:
        """Return what the page shows in part of that which an approval rests on: the call, the message, facts, evidence."""
        proposal, wait = self.interrupt.proposal, self.interrupt
        is_cut = proposal is not None and not json_values.is_shown_whole(proposal["arguments"])
        parts = decision_evidence.parts_left_out(message=wait.message, facts=self.screen.facts, evidence=wait.evidence)
        return (decision_evidence.CALL, *parts) if is_cut else tuple(parts)

    def version(self, name: str) -> int:
        """Return the version that a control names, or ``NO_VERSION``."""
        version = self.text(name)
        names_one = version.isascii() and version.isdigit() and len(version) < 10
        return int(version) if names_one else NO_VERSION

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
        edit_reading = self.reading(edit_form, judge=judge)
        return Part(
            verdict=verdict,
            words=offer_of(self.interrupt, verdict),
            is_chosen=is_chosen,
            message=message,
            message_problem=self.message_problem(verdict, message) if judge else "",
            form=form,
            reading=self.reading(form, judge=judge),
            edit_form=edit_form,
            edit_reading=edit_reading,
            ticks=self.ticks(verdict, edit_reading, judge=judge),
        )

    def answer_form(self, verdict: str) -> Form | None:
        """Return the form of the input schema, for the verdicts that take an input."""
        schema = self.interrupt.schema
        if verdict == Verdict.ANSWER:
            asked = True if schema is None else schema.body
            return build_form(asked, prefix="input", shape=self.shape, must_be_given=True)
        if verdict in APPROVING and schema is not None:
            return build_form(schema.body, prefix=f"input-{verdict}", shape=self.shape, must_be_given=True)
        return None

    def edit_form(self) -> Form:
        proposal = self.interrupt.proposal
        given = proposal["arguments"]
        if "schema" in proposal:
            form = build_form(proposal["schema"], proposed=given, prefix="arguments", shape=self.shape)
        else:
            form = build_edit_form(given, prefix="arguments", shape=self.shape)
        agent = self.interrupt.agent_id
        label = labels_of([(agent, proposal)]).get((agent, str(proposal["name"])))
        return labelled(form, describe_call(proposal, label))

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

    def ticks(self, verdict: str, edit_reading: Reading | None, *, judge: bool) -> tuple[Tick, ...]:
        ticks = []
        # An answer to the version before is the gateway's to refuse: its sender could not tick this.
        judge_this = judge and self.version("state_version") == self.interrupt.state_version
        if self.amended is not None and verdict in {*APPROVING, Verdict.ANSWER}:
            value = self.interrupt.content_digest
            ticks.append(
                self.tick("amended", verdict, value, words="Confirm that you have read what changed.", judge=judge_this)
            )
        warnings = self.disguise(edit_reading) if verdict in APPROVING else None
        if warnings:
            words = "Confirm that you have seen the characters that hide or look like others."
            tick = self.tick("disguise", verdict, self.interrupt.content_digest, words=words, judge=judge_this)
            ticks.append(replace(tick, warnings=warnings))
        if verdict in APPROVING and self.left_out:
            parts = " and ".join(f"the {name}" for name in self.left_out)
            words = f"Confirm that you have read the part of {parts} that this page does not show."
            value = self.interrupt.content_digest
            ticks.append(
                replace(self.tick("rest", verdict, value, words=words, judge=judge_this), left_out=self.left_out)
            )
        if verdict in APPROVING:
            for fact in self.screen.changed:
                words = "Confirm that you have seen this change."
                ticks.append(
                    self.tick(mark_of_fact(fact), verdict, digest(fact.last_value), words=words, judge=judge, fact=fact)
                )
        return tuple(ticks)

    def disguise(self, edit_reading: Reading | None) -> Warnings | None:
        """Return what hides in the exact values that would be approved: the proposed call, or the call as it was edited."""
        proposal = self.interrupt.proposal
        if proposal is None:
            return None
        edited = None if edit_reading is None else edit_reading.value
        arguments = proposal["arguments"] if edited is None or isinstance(edited, Absent) else edited
        return warnings_in([proposal["name"], arguments])

    def tick(self, what: str, verdict: str, value: str, *, words: str, judge: bool, fact: Fact | None = None) -> Tick:
        """Return one change to confirm, and whether it was."""
        name = f"seen-{what}-{verdict}"
        is_ticked = self.text(name) == value
        return Tick(
            id=f"tick-{what}-{verdict}",
            fact=fact,
            name=name,
            value=value,
            is_ticked=is_ticked,
            problem=words if judge and not is_ticked else "",
        )
