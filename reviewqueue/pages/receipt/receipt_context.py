"""A decision's receipt as its page draws it: what was said, and how far what it allowed has come.

Called by ``views``.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.auth.models import AbstractUser

from ledger.digests import digest
from reviewqueue import reviewer_actions
from reviewqueue.pages import code_labels
from reviewqueue.pages.call_labels import describe_call, labels_of
from reviewqueue.pages.interrupt.interrupt_context import asked
from reviewqueue.pages.interrupt.previous_rounds import next_round, overtaking_facts
from reviewqueue.pages.receipt.execution_status import carried_out, permit_state
from reviewqueue.pages.receipt.webhook_status import tellings_of
from reviewqueue.pages.runs.unclaimed_text import unread_in_words
from reviewqueue.queries.page_queries import ReceiptScreen
from reviewqueue.text.json_diff_text import ShownChanges, changes_between, changes_to_show
from reviewqueue.text.times import in_words
from runs.call_edits import arguments_seen
from runs.decisions import who_decided
from runs.models import Decision, Interrupt
from runs.states import APPROVING, ContinuationStatus, DecisionStatus, InterruptStatus, Verdict
from runs.unclaimed_continuations import Unclaimed, find_unclaimed


@dataclass(frozen=True, kw_only=True)
class Hop:
    """One station of an answer's way: ``state`` is "done", "now" or "to come"."""

    words: str
    sub: str = ""
    at: datetime | None = None
    state: str = "to come"


def receipt_context(
    screen: ReceiptScreen, following: Interrupt | None, *, reader: AbstractUser, now: datetime
) -> dict[str, Any]:
    """Return everything the receipt shows. ``following``: the wait to go to next."""
    decision, interrupt = screen.decision, screen.interrupt
    proposals = [(wait.agent_id, wait.proposal) for wait in (interrupt, following) if wait is not None]
    labels = labels_of(proposals)
    allowed = screen.permit.call if screen.permit is not None else None
    shown = allowed or interrupt.proposal
    call = None
    if shown is not None:
        call = describe_call(shown, labels.get((interrupt.agent_id, str(shown["name"]))))
    _, plain = asked(interrupt, labels)
    word, tone = code_labels.DECISION_WORDS[decision.status]
    may_undo = _may_be_undone(screen, reader=reader, now=now)
    unclaimed = _unclaimed(screen, now=now)
    hops = _hops(screen, unclaimed, now=now) if decision.status == DecisionStatus.ACCEPTED else []
    tellings = tellings_of(decision, screen.continuation)
    permit, outcome = permit_state(screen, now=now), carried_out(screen)
    stations = [hop.sub for hop in hops] + [f"{telling.word} {telling.tries}" for telling in tellings]
    stations += [decision.status, permit, outcome, str(screen.halt.pk if screen.halt is not None else "")]
    is_on_its_way = any(hop.state == "to come" for hop in hops) or any(telling.is_open for telling in tellings)
    is_on_its_way = is_on_its_way or permit == "good"
    return {
        "section": "inbox",
        "now": now,
        "tellings": tellings,
        "unclaimed": unclaimed,
        "unread_words": "" if unclaimed is None else unread_in_words(unclaimed.handed_back_by),
        "so_far": f"{may_undo}.{screen.resume}.{digest(stations)[4:20]}",
        "is_moving": may_undo or is_on_its_way or screen.resume == "leased",
        "screen": screen,
        "halt": screen.halt if is_on_its_way else None,
        "permit_state": permit,
        "carried_out": outcome,
        "decision": decision,
        "interrupt": interrupt,
        "plain": plain,
        "call": call,
        "was_allowed": allowed is not None,
        "changes": _edited(decision),
        "overtaken_by": overtaking_facts(decision),
        "next_round": None if decision.status == DecisionStatus.ACCEPTED else next_round(decision, reader=reader),
        "done": code_labels.VERDICT_DONE.get(decision.verdict, "answered"),
        "status_word": word,
        "status_tone": tone,
        "is_counted": decision.status == DecisionStatus.COUNTED,
        "tally": screen.tally,
        "is_accepted": decision.status == DecisionStatus.ACCEPTED,
        "is_approving": decision.verdict in APPROVING,
        "is_readers": decision.by_id == reader.pk,
        "may_undo": may_undo,
        "undo_until": decision.created_at + interrupt.policy.undo,
        "who": who_decided(decision),
        "hops": hops,
        "holds": [(code_labels.HOLD_WORDS.get(hold.kind, hold.kind), hold) for hold in screen.holds],
        "following": None if following is None else asked(following, labels)[1],
        "following_wait": following,
    }


def _edited(decision: Decision) -> ShownChanges | None:
    """Return what the person changed in the call, against the proposal that they saw."""
    if decision.verdict != Verdict.EDIT or decision.arguments is None:
        return None
    changes = changes_between(arguments_seen(decision.interrupt, decision.state_version), decision.arguments)
    return changes_to_show([change for change in changes if not change.is_same])


def _may_be_undone(screen: ReceiptScreen, *, reader: AbstractUser, now: datetime) -> bool:
    """Say whether to offer taking it back; whether it still can be is judged when the button is pressed."""
    decision, interrupt = screen.decision, screen.interrupt
    if decision.by_id == reader.pk and decision.status == DecisionStatus.COUNTED:
        return interrupt.status == InterruptStatus.WAITING and now < interrupt.deadline
    until = reviewer_actions.undo_deadline(decision)
    return decision.by_id == reader.pk and until is not None and now < until


def _unclaimed(screen: ReceiptScreen, *, now: datetime) -> Unclaimed | None:
    """Return that no worker takes what this very answer let go on, once that is longer than it should take."""
    if screen.continuation is None or screen.resume != ContinuationStatus.READY:
        return None
    found = find_unclaimed([screen.run], now=now).get(screen.run.pk)
    return found if found is not None and found.is_told else None


def _hops(screen: ReceiptScreen, unclaimed: Unclaimed | None, *, now: datetime) -> list[Hop]:
    """Return the way of an accepted answer and where on it the run is."""
    decided = Hop(words="Decided", at=screen.decision.created_at, state="done")
    to_come = [Hop(words="Checked again"), Hop(words="Ready"), Hop(words="Taken"), Hop(words="Goes on")]
    continuation = screen.continuation
    if continuation is None:
        return [decided, Hop(words="Waits for its other questions", state="now"), *to_come]
    if screen.resume == "void":
        return [decided, Hop(words="Ended", sub=continuation.void_reason or "it does not go on from here", state="now")]
    held = screen.resume == "held"
    place = ["checking", "ready", "leased", "acknowledged"].index(continuation.status)
    subs = ["facts and open effects", "for any free worker", "by a worker", "next boundary reached"]
    times = [None, None, continuation.leased_at, continuation.acknowledged_at]
    hops = [decided]
    for at, words in enumerate(("Checked again", "Ready", "Taken", "Went on")):
        is_now = at == place and continuation.status != "acknowledged"
        state = "now" if is_now else "done" if at < place or continuation.status == "acknowledged" else "to come"
        sub = "held back, see below" if is_now and held else subs[at] if state != "to come" else ""
        if words == "Ready" and state != "done" and not held and now < continuation.not_before:
            sub = "once it can no longer be taken back"
        elif is_now and words == "Ready" and unclaimed is not None:
            sub = f"no worker has taken it for {in_words(unclaimed.waited)}"
        elif is_now and words == "Ready" and not held and screen.halt is not None:
            sub = "for any free worker, once the halt of its agent is lifted"
        hops.append(Hop(words=words, sub=sub, at=times[at], state=state))
    return hops
