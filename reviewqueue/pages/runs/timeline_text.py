"""The timeline in words: what happened to a run, as a person would tell it.

Called by pages with the events of one run. An event names ids; what they stand for (people, answers, waits) is looked up
once for the whole story. A type nobody wrote words for is still told, by its own name: nothing is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractUser
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from reviewqueue.pages import code_labels
from reviewqueue.pages.runs.edit_summary import edited_in_words
from reviewqueue.text import times
from reviewqueue.text.hidden_characters import seen
from runs.models import Comment, Decision, Event, Interrupt

LONG_WAIT = timedelta(hours=1)
UNREAD = frozenset({"incompatible", "unknown_checkpoint"})

#: What follows the name of a person, where the event's own words are a sentence about the run.
_BY_A_PERSON = {
    "run.started": "started the run",
    "run.ending": "asked to end the run",
    "run.completed": "completed the run",
    "run.failed": "ended the run as failed",
    "run.cancelled": "cancelled the run",
    "run.expired": "ended the run as expired",
    "interrupt.amended": "changed what it asks; votes begin anew",
    "interrupt.withdrawn": "took the question back",
    "hold.lifted": "settled what held it back",
    "fact.waived": "waived a fact that could not be told",
}
_SYSTEM_WORDS = {"system:expiry": "The policy’s default"}


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line of a story. ``words`` and ``sub`` are HTML; ``tone`` is "", "person", "warn", "bad" or "gap"."""

    at: datetime | None
    icon: str
    words: SafeString
    sub: SafeString | str = ""
    tone: str = ""
    who: str = ""
    gap: str = ""


@dataclass(frozen=True, kw_only=True)
class _Told:
    """What an event's words say, without who and when."""

    words: SafeString | str
    sub: SafeString | str = ""
    icon: str = "info"
    tone: str = ""


@dataclass(frozen=True, kw_only=True)
class _Known:
    """What the ids of the events stand for."""

    reader: AbstractUser
    decisions: dict[str, Decision]
    waits: dict[str, Interrupt]
    comments: dict[tuple[str, datetime], str]
    names: dict[str, str]

    def decision(self, event: Event) -> Decision | None:
        return self.decisions.get(str(event.refs.get("decision")))

    def wait(self, event: Event) -> Interrupt | None:
        return self.waits.get(str(event.refs.get("interrupt")))

    def name(self, address: str) -> str:
        return "You" if address == self.reader.get_username() else self.names.get(address, address)


def tell(events: Sequence[Event], *, reader: AbstractUser, waits: Iterable[Interrupt]) -> list[Entry]:
    """Return the story of the events in their order, with long waits told as such."""
    known = _look_up(events, reader=reader, waits=waits)
    story: list[Entry] = []
    before: Event | None = None
    for event in events:
        if before is not None and before.type == "run.suspended" and event.at - before.at >= LONG_WAIT:
            waited = times.in_words(event.at - before.at)
            words = mark_safe("waited; one row, no process, no connection")
            story.append(Entry(at=None, icon="pause", words=words, tone="gap", gap=waited))
        story.append(_entry(event, known))
        before = event
    return story


def _look_up(events: Sequence[Event], *, reader: AbstractUser, waits: Iterable[Interrupt]) -> _Known:
    ids = {str(event.refs["decision"]) for event in events if event.refs.get("decision")}
    by_id = {wait.public_id: wait for wait in waits}
    # What somebody said to a wait that the reader may not see stays unsaid here too.
    decisions = Decision.objects.filter(public_id__in=ids, interrupt__public_id__in=by_id).select_related("by")
    addresses = {event.actor.removeprefix("person:") for event in events if event.actor.startswith("person:")}
    addresses |= {str(event.refs["initiator"]) for event in events if event.refs.get("initiator")}
    people = get_user_model().objects.filter(username__in=addresses)
    return _Known(
        reader=reader,
        decisions={decision.public_id: decision for decision in decisions},
        waits=by_id,
        comments=_comments_on(by_id, events),
        names={person.get_username(): person.get_full_name() or person.get_username() for person in people},
    )


def _comments_on(waits: Iterable[str], events: Sequence[Event]) -> dict[tuple[str, datetime], str]:
    """Return what was said, by wait and moment: an event and its comment are of the same one."""
    if not any(event.type == "interrupt.commented" for event in events):
        return {}
    said = Comment.objects.filter(interrupt__public_id__in=waits).values_list(
        "interrupt__public_id", "created_at", "text"
    )
    return {(wait, at): text for wait, at, text in said}


def _entry(event: Event, known: _Known) -> Entry:
    told = _TOLD.get(event.type, _in_its_own_words)(event, known)
    is_person = event.actor.startswith("person:")
    words = _BY_A_PERSON.get(event.type, told.words) if is_person else told.words
    who = known.name(event.actor.removeprefix("person:")) if is_person else ""
    sub = told.sub
    if not is_person and str(words)[:1].islower():
        who = "Its agent" if event.actor.startswith("agent:") else _SYSTEM_WORDS.get(event.actor, "This server")
    elif who and not str(words)[:1].islower():
        # A sentence with a subject of its own: whose act it was stands below it, never in front.
        by = "you" if who == "You" else who
        who, sub = "", format_html("{}; by {}", sub, by) if sub else format_html("by {}", by)
    return Entry(
        at=event.at,
        icon="person" if is_person and told.icon == "info" else told.icon,
        words=format_html("{}", words),
        sub=sub,
        tone=told.tone or ("person" if is_person else ""),
        who=who,
    )


def _in_its_own_words(event: Event, known: _Known) -> _Told:
    subject, _, verb = event.type.partition(".")
    named = event.refs.get("effect") or event.refs.get("subject") or event.refs.get("reason") or ""
    return _Told(words=f"{subject} {verb}".replace("_", " ").capitalize(), sub=seen(str(named)) if named else "")


def _started(event: Event, known: _Known) -> _Told:
    person = event.refs.get("initiator")
    words = format_html("Run started for {}", known.name(person)) if person else "Run started by its agent"
    return _Told(words=words, icon="play")


def _suspended(event: Event, known: _Known) -> _Told:
    named = event.refs.get("interrupts", ())
    asked = [known.waits[wait] for wait in named if wait in known.waits]
    # As it was then: a wait may have climbed since. Events from before the queues were noted name none.
    queues = [queue for wait, queue in zip(named, event.refs.get("queues", ()), strict=False) if wait in known.waits]
    desks = ", ".join(dict.fromkeys(code_labels.queue_title(str(queue)) for queue in queues if queue))
    words = f"Asked {desks}, then let its worker go" if desks else "Asked, then let its worker go"
    said = [format_html('<q class="said">{}</q>', seen(wait.title, one_line=True)) for wait in asked]
    again = "; asked again" if any(wait.renews_id for wait in asked) else ""
    sub = format_html("checkpoint {}{} {}", event.refs.get("checkpoint"), again, mark_safe(" ".join(said)))  # noqa: S308  drawn
    return _Told(words=words, sub=sub, icon="question")


def _answered(event: Event, known: _Known) -> _Told:
    decision = known.decision(event)
    verdict = code_labels.VERDICT_DONE.get(str(event.refs.get("verdict")), "answered")
    note = decision.message if decision is not None else ""
    if event.actor == "system:signal":
        return _Told(words="The signal came that it waited for", sub=_key(event.refs.get("signal")), icon="check")
    said = format_html('<q class="said">{}</q>', seen(note[:300])) if note else ""
    edited = edited_in_words(decision, known.wait(event))
    sub = format_html("{} {}", edited, said) if edited else said
    return _Told(words=format_html("{}{}", verdict, _what(known.wait(event))), sub=sub)


def _counted(event: Event, known: _Known) -> _Told:
    told = _answered(event, known)
    overtaken = " Earlier votes were for another call." if event.refs.get("votes_overtaken") else ""
    so_far = f"{event.refs.get('counted')} of {event.refs.get('needed')}.{overtaken}"
    return _Told(words=told.words, sub=format_html("{} {}", so_far, told.sub), icon="check")


def _refused(event: Event, known: _Known) -> _Told:
    decision = known.decision(event)
    tried = code_labels.VERDICT_DONE.get(decision.verdict, "answered") if decision is not None else "answered"
    words = f"{tried}, and was refused"
    return _Told(words=words, sub=format_html("<code>{}</code>; kept as evidence", event.refs.get("code")), tone="warn")


def _commented(event: Event, known: _Known) -> _Told:
    said = known.comments.get((str(event.refs.get("interrupt")), event.at))
    words = format_html("wrote a comment{}", _what(known.wait(event)))
    return _Told(words=words, sub=seen(said[:300]) if said else "", icon="comment")


def _claimed(event: Event, known: _Known) -> _Told:
    return _Told(words="claimed it")


def _released(event: Event, known: _Known) -> _Told:
    return _lost_by(event, "A claim ended") if event.refs.get("people") else _Told(words="let it go")


def _unassigned(event: Event, known: _Known) -> _Told:
    return _lost_by(event, "An assignment ended")


def _vote_revoked(event: Event, known: _Known) -> _Told:
    return _lost_by(event, "A vote counts no more")


def _lost_by(event: Event, words: str) -> _Told:
    """Say what ended with the permission of the people whom the event names."""
    people = seen(", ".join(map(str, event.refs.get("people") or ())), one_line=True)
    return _Told(words=words, sub=format_html("{} may no longer decide", people), icon="lock", tone="warn")


def _expired(event: Event, known: _Known) -> _Told:
    do = str(event.refs.get("do"))
    sub = {
        "default": "the policy’s default answer counts",
        "resume": "the agent goes on without an answer",
        "cancel": "the run ends as expired",
        "fail": "the run ends as failed",
    }.get(do, "")
    return _Told(words="Nobody answered in time", sub=sub, icon="clock", tone="warn")


def _escalated(event: Event, known: _Known) -> _Told:
    after = code_labels.queue_title(str(event.refs.get("to")))
    before = code_labels.queue_title(str(event.refs.get("before")))
    return _Told(words=f"Nobody answered in {before}; now {after} is asked", icon="next", tone="warn")


def _renewed(event: Event, known: _Known) -> _Told:
    return _Told(words="A fact changed, so the review was renewed", sub=_facts(event), icon="change", tone="warn")


def _replanned(event: Event, known: _Known) -> _Told:
    words = "A fact changed: the answer is kept as evidence, the agent redoes what is affected"
    return _Told(words=words, sub=_facts(event), icon="change", tone="warn")


def _reported(event: Event, known: _Known) -> _Told:
    return _Told(words="Its worker checked facts again", sub=_facts(event), icon="round")


def _facts(event: Event) -> SafeString:
    names = ", ".join(str(name) for name in event.refs.get("facts", ()))
    return seen(names, one_line=True) if names else mark_safe("")


def _checkpoint(event: Event, known: _Known) -> _Told:
    number, file = event.refs.get("checkpoint", event.refs.get("number", "")), event.refs.get("file")
    words = format_html("Checkpoint {}{}", number, ", with a file" if file else "")
    step = event.refs.get("step")
    return _Told(words=words, sub=seen(str(step), one_line=True) if step else "", icon="flag")


def _ready(event: Event, known: _Known) -> _Told:
    return _Told(words="Checked again: it may go on", icon="check")


def _continued(event: Event, known: _Known) -> _Told:
    return _Told(words="A worker took it and went on", sub=f"attempt {event.refs.get('attempt')}", icon="play")


def _denied(event: Event, known: _Known) -> _Told:
    words = "The answer lost its authority before the run went on; asked again"
    return _Told(words=words, icon="lock", tone="warn")


def _lost(event: Event, known: _Known) -> _Told:
    doubts = event.refs.get("in_doubt") or ()
    sub = format_html("in doubt: {}", seen(", ".join(map(str, doubts)), one_line=True)) if doubts else ""
    return _Told(
        words="Its worker was lost", sub=sub or "it goes on from the last checkpoint", icon="alert", tone="warn"
    )


def _handed_back(event: Event, known: _Known) -> _Told:
    refs, sub = event.refs, seen(str(event.refs.get("reason", "")))
    if refs.get("reason") in UNREAD:
        version = str(refs.get("code_version") or "")
        code = format_html("code <code>{}</code>", seen(version, one_line=True)) if version else "no code version named"
        sub = format_html("{}: {}; {}", sub, code, seen(str(refs.get("detail") or "it cannot read the checkpoint")))
    return _Told(
        words="Its worker handed it back", sub=sub, icon="undo", tone="warn" if refs.get("reason") in UNREAD else ""
    )


def _retagged(event: Event, known: _Known) -> _Told:
    refs = event.refs
    version = seen(str(refs.get("code_version")), one_line=True)
    before = refs.get("before")
    instead = format_html(" instead of <code>{}</code>", seen(str(before), one_line=True)) if before else ""
    words = format_html("gave it to code version <code>{}</code>{}", version, instead)
    return _Told(words=words, sub=seen(str(refs.get("reason") or "")), icon="change")


def _held(event: Event, known: _Known) -> _Told:
    words = code_labels.HOLD_WORDS.get(str(event.refs.get("kind")), "It is held back")
    subject = str(event.refs.get("subject") or "")
    return _Told(words=words, sub=seen(subject, one_line=True) if subject else "", icon="lock", tone="bad")


def _restored(event: Event, known: _Known) -> _Told:
    doubts = event.refs.get("in_doubt") or ()
    sub = format_html("in doubt: {}", seen(", ".join(map(str, doubts)), one_line=True)) if doubts else ""
    words = "A backup was restored; what was done after it was taken is not known here"
    return _Told(words=words, sub=sub, icon="alert", tone="bad")


def _ending(event: Event, known: _Known) -> _Told:
    return _Told(words="It is being ended", sub=seen(str(event.refs.get("reason", ""))), icon="stop", tone="warn")


def _ended(event: Event, known: _Known) -> _Told:
    status = event.type.partition(".")[2]
    word, icon, tone, _ = code_labels.RUN_WORDS.get(status, (status, "flag", "", ""))
    reason = event.refs.get("reason")
    return _Told(
        words=f"Run {word}", sub=seen(str(reason)) if reason else "", icon=icon, tone="" if tone == "good" else tone
    )


def _effect(words: str, icon: str, tone: str = "") -> Callable[[Event, _Known], _Told]:
    def told(event: Event, known: _Known) -> _Told:
        return _Told(words=words, sub=_key(event.refs.get("effect")), icon=icon, tone=tone)

    return told


def _key(key: Any) -> SafeString:
    return format_html("<code>{}</code>", seen(str(key), one_line=True)) if key else mark_safe("")


def _what(wait: Interrupt | None) -> SafeString:
    return (
        format_html(' <q class="said">{}</q>', seen(wait.title, one_line=True)) if wait is not None else mark_safe("")
    )


def _acted(words: str, icon: str = "info", tone: str = "") -> Callable[[Event, _Known], _Told]:
    def told(event: Event, known: _Known) -> _Told:
        reason = str(event.refs.get("reason") or "")
        return _Told(words=words, sub=seen(reason) if reason else "", icon=icon, tone=tone)

    return told


_TOLD: dict[str, Callable[[Event, _Known], _Told]] = {
    "run.started": _started,
    "run.suspended": _suspended,
    "run.ending": _ending,
    "run.completed": _ended,
    "run.failed": _ended,
    "run.cancelled": _ended,
    "run.expired": _ended,
    "run.replanned": _replanned,
    "checkpoint.committed": _checkpoint,
    "run.pause_asked": _acted("asked it to pause", "pause", "warn"),
    "run.resumed": _acted("let it go on", "play"),
    "run.cancel_asked": _acted("asked to cancel it", "stop", "warn"),
    "run.retagged": _retagged,
    "run.restarted": _acted("started it again", "round"),
    "interrupt.answered": _answered,
    "interrupt.amended": _acted("Changed what it asks; votes begin anew", "change", "warn"),
    "interrupt.withdrawn": _acted("Took the question back", "undo", "warn"),
    "interrupt.assigned": _acted("assigned it"),
    "interrupt.extended": _acted("gave it more time", "clock"),
    "interrupt.commented": _commented,
    "decision.undone": _acted("took the answer back", "undo", "warn"),
    "interrupt.claimed": _claimed,
    "interrupt.released": _released,
    "interrupt.unassigned": _unassigned,
    "vote.revoked": _vote_revoked,
    "interrupt.expired": _expired,
    "interrupt.escalated": _escalated,
    "decision.counted": _counted,
    "interrupt.reminded": _acted("Its people were reminded of the deadline", "clock"),
    "timer.fired": _acted("The time that it waited for has come", "clock"),
    "signal.refused": _acted("A signal came that did not fit what it waits for", "alert", "warn"),
    "decision.refused": _refused,
    "review.renewed": _renewed,
    "resume.denied": _denied,
    "approval.revoked": _acted("An approval ended: its approver may no longer decide", "lock", "warn"),
    "facts.reported": _reported,
    "continuation.ready": _ready,
    "continuation.claimed": _continued,
    "lease.lost": _lost,
    "lease.handed_back": _handed_back,
    "hold.opened": _held,
    "run.restored": _restored,
    "records.written": _acted("Records were stored that no other entry covers", "clock"),
    "snapshots.erased": _acted("Its states are past their time and were erased; the record stays", "clock"),
    "effect.begun": _effect("An outside effect began", "bolt"),
    "effect.applied": _effect("An outside effect happened", "check"),
    "effect.failed": _effect("An outside effect failed, and did not happen", "cross", "bad"),
    "effect.unknown": _effect("Nobody knows yet whether an outside effect happened", "question", "bad"),
    "effect.refused": _effect("An outside effect was refused", "lock", "warn"),
    "effect.compensated": _effect("What was done outside is taken back", "undo"),
    "effect.undo_waived": _effect("let an outside effect stay as it is", "flag", "warn"),
    "run.compensating": _acted("What it did outside is to be taken back, newest first", "undo", "warn"),
    "effect.settled": _effect("said what happened outside", "check"),
    "effect.ordered_again": _effect("ordered an effect to be done again", "round"),
    "effect.contradiction_closed": _effect("closed the contradiction", "check"),
    "effect.contradicted": _effect("A second report contradicts the first", "alert", "bad"),
}
