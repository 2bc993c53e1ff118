"""What a person is told when an answer was not used: who, when, what changed, what was kept, what next.

Called by ``deciding`` after the gateway refused. The words for each code are here; its HTTP status is the API's mapping.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractUser

from ledger.errors import Refusal
from reviewqueue.api.problems import PROBLEMS
from reviewqueue.pages import code_labels
from reviewqueue.pages.interrupt.changes_since_opened import Amended, amended_since
from reviewqueue.pages.interrupt.decision_draft import Draft
from reviewqueue.pages.interrupt.permission_messages import WHO_CAN
from reviewqueue.queries.page_queries import WaitScreen
from reviewqueue.text import times
from runs.models import Decision

#: After these the same wait may be decided again, so what was typed is filled in when it is opened.
MAY_TRY_AGAIN = frozenset({"stale_version", "claimed_by_other", "busy"})

_STRONG: dict[str, str] = {
    "stale_version": "This changed while you read it.",
    "expired": "The time to decide has ended.",
    "withdrawn": "The agent took this question back.",
    "superseded": "Another answer made this question needless.",
    "cancelled": "The run was ended, and this question with it.",
    "already_voted": "Your vote counts already.",
    "claimed_by_other": "Somebody else holds this at the moment.",
    "not_permitted": "You may not decide this.",
    "self_review": "You started this run, so somebody else decides about it.",
    "already_decided": "Somebody was first.",
    "input_invalid": "Your answer does not fit what was asked.",
    "payload_invalid": "Nothing was chosen, or something is missing.",
    "key_reused": "You decided this already, with another answer.",
    "rate_limited": "Too many refused attempts.",
    "busy": "The database is busy.",
}


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """A refusal in words, with what was kept of the answer."""

    code: str
    status: int
    strong: str
    words: str
    winner: Decision | None
    winner_words: str
    kept: Decision | None
    typed: tuple[tuple[str, str], ...]
    who_can: tuple[str, ...]
    who: str
    may_try_again: bool
    amended: Amended | None


def tell_refusal(refusal: Refusal, *, screen: WaitScreen, draft: Draft, reader: AbstractUser, now: datetime) -> Outcome:
    """Return what the reader is told. ``screen`` was read after the refusal."""
    kept = Decision.objects.filter(by=reader.pk, interrupt=screen.interrupt, code=refusal.code)
    strong, words = _first_words(refusal, screen, draft, now=now)
    return Outcome(
        code=refusal.code,
        status=status_of(refusal),
        strong=strong,
        words=words,
        winner=screen.winner,
        winner_words="" if screen.winner is None else code_labels.VERDICT_DONE.get(screen.winner.verdict, "answered"),
        kept=kept.order_by("-id").first(),
        typed=_typed(draft),
        who_can=_names(refusal.extra.get("who_can", ())),
        who=WHO_CAN.get(refusal.code, ""),
        may_try_again=refusal.code in MAY_TRY_AGAIN,
        amended=amended_since(screen.interrupt, draft.seen.state_version, facts=screen.facts),
    )


def status_of(refusal: Refusal) -> int:
    """Return the HTTP status of a refusal, by the API's one mapping."""
    return PROBLEMS[refusal.code][0]


def _first_words(refusal: Refusal, screen: WaitScreen, draft: Draft, *, now: datetime) -> tuple[str, str]:
    winner = screen.winner
    if refusal.code == "already_decided" and winner is not None:
        who = winner.by.get_full_name() or winner.by.get_username() if winner.by else "The policy’s default"
        done = code_labels.VERDICT_DONE.get(winner.verdict, "answered")
        earlier = now - winner.created_at
        ago = times.in_words(earlier) if earlier.total_seconds() >= 1 else "moments"
        return f"{who} was first.", f"{who} {done}: {ago} before your answer arrived."
    if refusal.code == "stale_version":
        changed = _what_changed(screen, draft.seen.state_version)
        return _STRONG["stale_version"], f"{changed} Read it again: what you typed is kept and filled in."
    return _STRONG.get(refusal.code, "This could not be done."), refusal.detail


def _what_changed(screen: WaitScreen, seen_version: int) -> str:
    """Return what became of the wait since the version that was answered."""
    interrupt = screen.interrupt
    versions = f"You saw version {seen_version}; version {interrupt.state_version} waits now."
    members: list[str] = []
    for event in screen.events:
        amended = event.type == "interrupt.amended" and event.refs.get("interrupt") == interrupt.public_id
        if amended and int(event.refs.get("state_version", 0)) > seen_version:
            members += [str(member) for member in event.refs.get("members", ()) if member not in members]
    if members:
        return f"{versions} The agent changed: {', '.join(members)}."
    asked_again = interrupt.round > 1 and seen_version < interrupt.state_version
    return f"{versions} It was asked again, round {interrupt.round}." if asked_again else versions


def _typed(draft: Draft) -> tuple[tuple[str, str], ...]:
    """Return what the person said, part by part, as text."""
    part = draft.chosen
    if part is None:
        return ()
    typed = [("You chose", part.words.title)]
    if part.message:
        typed.append((part.words.message, part.message))
    for reading in (part.reading, part.edit_reading):
        if reading is not None:
            typed += [(_field_words(name), text) for name, text in reading.typed.items() if text and _is_field(name)]
    return tuple(typed)


def _is_field(name: str) -> bool:
    """Say whether a control holds words of the person, and not which shape was chosen or whether a list is sent empty."""
    return name.rpartition(".")[2] not in ("-kind", "-empty")


def _field_words(name: str) -> str:
    """Return the way to a field in words: without the form's own name and without the shapes passed on the way."""
    steps = [step for step in name.split(".")[1:] if not step.startswith("-k")]
    return " / ".join(str(int(step) + 1) if step.isdecimal() else step for step in steps) or "Answer"


def _names(addresses: object) -> tuple[str, ...]:
    if not isinstance(addresses, list | tuple):
        return ()
    people = get_user_model().objects.filter(username__in=addresses).order_by("username")
    return tuple(person.get_full_name() or person.get_username() for person in people)


def who_can_in_words(refusal: Refusal | None) -> tuple[str, ...]:
    """Return the names of the people who may decide instead."""
    return () if refusal is None else _names(refusal.extra.get("who_can", ()))
