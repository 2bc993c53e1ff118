"""Messages about refusals: why you cannot decide a request, and what the page after a refused decision shows.

The HTTP status of each code is the API's mapping. A test compares the codes here with those of the gateway.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractUser
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from ledger.errors import Refusal
from reviewqueue.api.problems import PROBLEMS
from reviewqueue.pages import code_labels
from reviewqueue.pages.interrupt.decision_form import DecisionForm
from reviewqueue.pages.interrupt.earlier_versions import ChangesSinceOpened, changes_since_version
from reviewqueue.queries.page_queries import RequestPage
from reviewqueue.text import times
from reviewqueue.text.people import person_name
from reviewqueue.text.problem_texts import refusal_text
from runs.decisions import closed_refusal
from runs.errors import AlreadyVoted, ClaimedByOther, Expired
from runs.interrupts import is_past_deadline
from runs.models import Decision

#: After these refusals the reviewer can decide the request again, so the draft fills in the form when it is opened.
RETRYABLE_CODES = frozenset({"stale_version", "claimed_by_other", "busy", "second_factor_required"})

_HEADLINES: dict[str, str] = {
    "stale_version": gettext_noop("This request changed while you read it."),
    "expired": gettext_noop("The deadline has passed."),
    "withdrawn": gettext_noop("The agent withdrew this request."),
    "superseded": gettext_noop("Another answer superseded this request."),
    "cancelled": gettext_noop("The run and this request were cancelled."),
    "already_voted": gettext_noop("Your vote already counts."),
    "claimed_by_other": gettext_noop("Another reviewer has claimed this request."),
    "not_permitted": gettext_noop("You do not have permission to decide this request."),
    "second_factor_required": gettext_noop("This decision needs your second factor."),
    "self_review": gettext_noop("You started this run, so another reviewer must decide."),
    "already_decided": gettext_noop("Another reviewer decided first."),
    "input_invalid": gettext_noop("Your answer is invalid."),
    "payload_invalid": gettext_noop("No decision was chosen, or a field is missing."),
    "key_reused": gettext_noop("You already sent another answer with this form."),
    "rate_limited": gettext_noop("Too many refused attempts."),
    "busy": gettext_noop("The database is busy."),
}

#: Who can decide instead, or what you can do.
WHO_CAN: dict[str, str] = {
    "already_decided": gettext_noop(
        "A request is decided once. The reviewer who decided can undo it until the run continues."
    ),
    "already_voted": gettext_noop("Other reviewers must add the missing votes. You can undo your own vote."),
    "busy": gettext_noop("You can decide in a moment. Send the form again."),
    "cancelled": gettext_noop("No reviewer can: its run was cancelled."),
    "claimed_by_other": gettext_noop(
        "The reviewer who claimed it can. You can when the claim ends; a lead of the queue can take over."
    ),
    "expired": gettext_noop("No reviewer can: the policy’s action for the deadline happens instead."),
    "input_invalid": gettext_noop("You can. Correct the fields that have an error."),
    "key_reused": gettext_noop("A form sends one decision. Open the request again."),
    "not_permitted": gettext_noop("No other reviewer can at present. A lead must add a reviewer to the queue."),
    "payload_invalid": gettext_noop("You can. Choose a decision, fill in its fields and press its button."),
    "rate_limited": gettext_noop("You can decide later. You made too many refused attempts in one hour."),
    "second_factor_required": gettext_noop("You can. Open the request, decide it there and use your second factor."),
    "self_review": gettext_noop("No other reviewer can at present. A lead must add a reviewer to the queue."),
    "stale_version": gettext_noop("You can. Read what changed, then decide."),
    "superseded": gettext_noop("No reviewer can: another answer superseded it."),
    "withdrawn": gettext_noop("No reviewer can: the agent withdrew it."),
}

# --- why you cannot decide ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class CannotDecide:
    code: str
    reason: str
    who_can: str


def why_cannot_decide(screen: RequestPage, *, now: datetime) -> CannotDecide | None:
    """Return why the reader cannot decide the request now, or ``None`` if they can."""
    interrupt = screen.interrupt
    if not screen.is_open:
        refusal = closed_refusal(interrupt, screen.winner)
    elif screen.why_not is not None:
        refusal = screen.why_not
    elif is_past_deadline(interrupt, now=now):
        refusal = Expired(f"{_('The deadline has passed.')} {code_labels.deadline_outcome(interrupt)}")
    elif screen.has_voted:
        refusal = AlreadyVoted()
    elif screen.held_by_other and interrupt.claimed_until is not None:
        left = times.duration_label(interrupt.claimed_until - now)
        refusal = ClaimedByOther(
            _("Another reviewer has claimed this for {left} more. You can read it.").format(left=left)
        )
    else:
        return None
    return CannotDecide(code=refusal.code, reason=refusal_text(refusal), who_can=_(WHO_CAN[refusal.code]))


# --- the page after a refused decision ----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class RefusedDecision:
    """A refusal as its page shows it. ``recorded`` is the decision that was stored as refused, if any."""

    code: str
    status: int
    headline: str
    detail: str
    winner: Decision | None
    winner_done: str
    recorded: Decision | None
    entered: tuple[tuple[str, str], ...]
    names: tuple[str, ...]
    who_can: str
    is_retryable: bool
    changes: ChangesSinceOpened | None


def describe_refusal(
    refusal: Refusal, *, screen: RequestPage, decision_form: DecisionForm, reader: AbstractUser, now: datetime
) -> RefusedDecision:
    """Return what the page shows. ``screen`` was read after the refusal."""
    recorded = Decision.objects.filter(by=reader.pk, interrupt=screen.interrupt, code=refusal.code)
    seen_version = decision_form.seen.state_version
    headline, detail = _headline_and_detail(
        refusal, screen, seen_version, has_entries=decision_form.has_entries, now=now
    )
    return RefusedDecision(
        code=refusal.code,
        status=status_of(refusal),
        headline=headline,
        detail=detail,
        winner=screen.winner,
        winner_done="" if screen.winner is None else code_labels.done_label(screen.winner, screen.interrupt.kind),
        recorded=recorded.order_by("-id").first(),
        entered=_entered_texts(decision_form),
        names=names_of_deciders(refusal),
        who_can=_(WHO_CAN[refusal.code]) if refusal.code in WHO_CAN else "",
        is_retryable=refusal.code in RETRYABLE_CODES,
        changes=changes_since_version(screen.interrupt, seen_version, facts=screen.facts),
    )


def status_of(refusal: Refusal) -> int:
    """Return the HTTP status of a refusal."""
    return PROBLEMS[refusal.code][0]


def names_of_deciders(refusal: Refusal | None) -> tuple[str, ...]:
    """Return the names of the people in the refusal's ``who_can``."""
    usernames = () if refusal is None else refusal.extra.get("who_can", ())
    if not isinstance(usernames, list | tuple):
        return ()
    people = get_user_model().objects.filter(username__in=usernames).order_by("username")
    return tuple(person_name(person) for person in people)


def _headline_and_detail(
    refusal: Refusal, screen: RequestPage, seen_version: int, *, has_entries: bool, now: datetime
) -> tuple[str, str]:
    winner = screen.winner
    if refusal.code == "already_decided" and winner is not None:
        who = capfirst(code_labels.decider_label(winner, screen.interrupt.kind))
        done = code_labels.done_label(winner, screen.interrupt.kind)
        earlier = now - winner.created_at
        ago = times.duration_label(earlier) if earlier.total_seconds() >= 1 else _("moments")
        return _("{who} was first.").format(who=who), _("{who} {done}: {ago} before your answer arrived.").format(
            who=who, done=done, ago=ago
        )
    if refusal.code == "stale_version":
        changed = _what_changed(screen, seen_version)
        advice = _("Read it again. Your draft is filled in.") if has_entries else _("Read it again.")
        return _(_HEADLINES["stale_version"]), f"{changed} {advice}"
    return _(_HEADLINES.get(refusal.code, "The decision was refused.")), refusal_text(refusal)


def _what_changed(screen: RequestPage, seen_version: int) -> str:
    interrupt = screen.interrupt
    versions = _("You saw version {seen_version}. The current version is {state_version}.").format(
        seen_version=seen_version, state_version=interrupt.state_version
    )
    members: list[str] = []
    for event in screen.events:
        amended = event.type == "interrupt.amended" and event.refs.get("interrupt") == interrupt.public_id
        if amended and int(event.refs.get("state_version", 0)) > seen_version:
            members += [str(member) for member in event.refs.get("members", ()) if member not in members]
    if members:
        return _("{versions} The agent changed: {list}.").format(versions=versions, list=", ".join(members))
    asked_again = interrupt.round > 1 and seen_version < interrupt.state_version
    return (
        _("{versions} It was asked again, round {round}.").format(versions=versions, round=interrupt.round)
        if asked_again
        else versions
    )


def _entered_texts(decision_form: DecisionForm) -> tuple[tuple[str, str], ...]:
    """Return the chosen verdict and the entered texts with their labels."""
    section = decision_form.chosen
    if section is None:
        return ()
    entered = [(_("You chose"), section.labels.title)]
    if section.message:
        entered.append((section.labels.message, section.message))
    for submission in (section.submission, section.edit_submission):
        if submission is not None:
            entered += [
                (_field_label(name), text) for name, text in submission.entered.items() if text and _is_text(name)
            ]
    return tuple(entered)


def _is_text(name: str) -> bool:
    """Return whether a control has a text of the reviewer, not a chosen branch or the checkbox of an empty list."""
    return name.rpartition(".")[2] not in ("-kind", "-empty", "-offset")


def _field_label(name: str) -> str:
    """Return the path of a field as a label, without the prefix of the form and the chosen branches."""
    steps = [step for step in name.split(".")[1:] if not step.startswith("-k")]
    return " / ".join(str(int(step) + 1) if step.isdecimal() else step for step in steps) or _("Answer")
