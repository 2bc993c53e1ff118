"""The timeline of a run as text: one entry for each event, with people, decisions and requests looked up once.

An event type without a text of its own is shown by its name, so that no event is left out. In English a text that starts
with a small letter follows the name of its actor; ``follows_name`` says so in every language.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractUser
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from ledger import effect_queries, exact_json
from ledger.exact_json import null_if_longer
from reviewqueue.pages import code_labels
from reviewqueue.pages.call_labels import describe_call_in_a_list, labels_of, request_heading_for_row
from reviewqueue.text import times
from reviewqueue.text.hidden_characters import render_exact
from reviewqueue.text.json_diff_text import list_differences
from reviewqueue.text.people import person_name
from runs.models import Comment, Decision, Event, Interrupt
from runs.planted_requests import PLANTED
from runs.revisions import arguments_shown_at
from runs.states import Kind, Verdict

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise as _Label

LONG_PAUSE = timedelta(hours=1)
UNREAD = frozenset({"incompatible", "unknown_checkpoint"})

#: What follows the name of a person, for events whose own text is a sentence about the run.
_BY_A_PERSON = {
    "run.started": gettext_lazy("started the run"),
    "run.ending": gettext_lazy("asked to end the run"),
    "run.completed": gettext_lazy("completed the run"),
    "run.failed": gettext_lazy("ended the run as failed"),
    "run.cancelled": gettext_lazy("cancelled the run"),
    "run.expired": gettext_lazy("ended the run as expired"),
    "interrupt.amended": gettext_lazy("amended the request; votes were reset"),
    "interrupt.withdrawn": gettext_lazy("withdrew the request"),
    "hold.lifted": gettext_lazy("lifted a hold"),
    "fact.waived": gettext_lazy("waived a fact that could not be checked"),
}
#: Events whose text names no request; with several requests the heading of theirs follows.
_NAMES_NO_REQUEST = frozenset(
    {
        "interrupt.amended",
        "interrupt.assigned",
        "interrupt.claimed",
        "interrupt.escalated",
        "interrupt.expired",
        "interrupt.extended",
        "interrupt.released",
        "interrupt.reminded",
        "interrupt.unassigned",
        "interrupt.withdrawn",
        "decision.refused",
        "decision.undone",
        "vote.revoked",
    }
)
LONGEST_CALL = 4_000  # characters of a call that the timeline reads
_SYSTEM_ACTORS = {"system:expiry": gettext_lazy("The policy’s default")}


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line of the timeline. ``words`` and ``sub`` are HTML; ``tone`` is "", "person", "warn", "bad" or "gap"."""

    at: datetime | None
    icon: str
    words: SafeString
    sub: SafeString | str = ""
    tone: str = ""
    who: str = ""
    gap: str = ""


@dataclass(frozen=True, kw_only=True)
class _Text:
    """The text of an event, without actor and time. ``follows_name``: it is what its actor did, not a sentence."""

    words: SafeString | str
    sub: SafeString | str = ""
    icon: str = "info"
    tone: str = ""
    follows_name: bool = False


@dataclass(frozen=True, kw_only=True)
class _Lookup:
    """The rows that the events refer to by id."""

    reader: AbstractUser
    decisions: dict[str, Decision]
    waits: dict[str, Interrupt]
    comments: dict[tuple[str, datetime], str]
    names: dict[str, str]
    headings: dict[str, SafeString]
    effects: dict[str, SafeString]

    def decision(self, event: Event) -> Decision | None:
        return self.decisions.get(str(event.refs.get("decision")))

    def wait(self, event: Event) -> Interrupt | None:
        return self.waits.get(str(event.refs.get("interrupt")))

    def heading(self, event: Event) -> SafeString | str:
        """Return the heading of the event's request: its call as a sentence, or its quoted title."""
        return self.headings.get(str(event.refs.get("interrupt")), "")

    def effect(self, key: Any) -> SafeString:
        """Return an effect as its call and its key."""
        call = self.effects.get(str(key))
        return format_html("{} {}", call, _key(key)) if call else _key(key)

    def effect_list(self, keys: Iterable[Any]) -> SafeString:
        """Return several effects, separated by semicolons."""
        return format_html_join("; ", "{}", ((self.effect(key),) for key in keys))

    def name(self, address: str) -> str:
        return _("You") if address == self.reader.get_username() else self.names.get(address, address)


def timeline_entries(events: Sequence[Event], *, reader: AbstractUser, waits: Iterable[Interrupt]) -> list[Entry]:
    """Return an entry for each event in order, and one for each pause of more than an hour."""
    lookup = _read_lookup(events, reader=reader, waits=waits)
    entries: list[Entry] = []
    before: Event | None = None
    for event in events:
        if before is not None and before.type == "run.suspended" and event.at - before.at >= LONG_PAUSE:
            waited = times.duration_label(event.at - before.at)
            words = format_html("{}", _("suspended; no process or connection is in use"))
            entries.append(Entry(at=None, icon="pause", words=words, tone="gap", gap=waited))
        entries.append(_entry(event, lookup))
        before = event
    return entries


def _read_lookup(events: Sequence[Event], *, reader: AbstractUser, waits: Iterable[Interrupt]) -> _Lookup:
    ids = {str(event.refs["decision"]) for event in events if event.refs.get("decision")}
    by_id = {wait.public_id: wait for wait in waits}
    # A decision on a request that the reader cannot see is not shown.
    decisions = Decision.objects.filter(public_id__in=ids, interrupt__public_id__in=by_id).select_related("by")
    addresses = {event.actor.removeprefix("person:") for event in events if event.actor.startswith("person:")}
    addresses |= {str(event.refs["initiator"]) for event in events if event.refs.get("initiator")}
    people = get_user_model().objects.filter(username__in=addresses)
    headings, effects = _read_calls(events, by_id)
    return _Lookup(
        reader=reader,
        decisions={decision.public_id: decision for decision in decisions},
        waits=by_id,
        comments=_comments_on(by_id, events),
        names={person.get_username(): person_name(person) for person in people},
        headings=headings,
        effects=effects,
    )


def _read_calls(
    events: Sequence[Event], waits: Mapping[str, Interrupt]
) -> tuple[dict[str, SafeString], dict[str, SafeString]]:
    """Return the headings of the requests and the calls of the effects that the events name, by id and by key."""
    ids = {str(event.refs["interrupt"]) for event in events if event.refs.get("interrupt")}
    ids.update(str(wait) for event in events for wait in event.refs.get("interrupts") or ())
    keys = {str(event.refs["effect"]) for event in events if event.refs.get("effect")}
    keys.update(str(event.refs["subject"]) for event in events if event.refs.get("subject"))
    keys.update(str(key) for event in events for key in event.refs.get("in_doubt") or ())
    asked = [waits[wait] for wait in sorted(ids & waits.keys())]
    rows = Interrupt.objects.filter(pk__in=[wait.pk for wait in asked if wait.kind == Kind.APPROVAL])
    calls = dict(rows.values_list("pk", null_if_longer("proposal", LONGEST_CALL))) if asked else {}
    effects = effect_queries.list_calls_by_key(events[0].run.public_id, keys) if keys else []
    if not asked and not effects:
        return {}, {}
    agent_id = events[0].run.agent_id
    labels = labels_of((agent_id, call) for call in [*calls.values(), *(call for __, __, call in effects)])
    headings = {wait.public_id: request_heading_for_row(wait, calls.get(wait.pk), labels)[0] for wait in asked}
    sentences = {
        key: describe_call_in_a_list(name, call, labels, agent_id=agent_id).sentence for key, name, call in effects
    }
    return headings, sentences


def _comments_on(waits: Iterable[str], events: Sequence[Event]) -> dict[tuple[str, datetime], str]:
    """Return the comments by request and time: an event and its comment have the same time."""
    if not any(event.type == "interrupt.commented" for event in events):
        return {}
    said = Comment.objects.filter(interrupt__public_id__in=waits).values_list(
        "interrupt__public_id", "created_at", "text"
    )
    return {(wait, at): text for wait, at, text in said}


def _entry(event: Event, lookup: _Lookup) -> Entry:
    text = _TEXTS.get(event.type, _fallback)(event, lookup)
    is_person = event.actor.startswith("person:")
    words = _BY_A_PERSON.get(event.type, text.words) if is_person else text.words
    follows_name = text.follows_name or (is_person and event.type in _BY_A_PERSON)
    address = event.actor.removeprefix("person:")
    who = lookup.name(address) if is_person else ""
    sub = text.sub
    if not is_person and follows_name:
        server = _SYSTEM_ACTORS.get(event.actor, _("This server"))
        who = _("Its agent") if event.actor.startswith("agent:") else str(server)
    elif who and not follows_name:
        # The text has a subject of its own: the actor follows below it.
        is_reader = address == lookup.reader.get_username()
        by = _("by you") if is_reader else format_html(_("by {name}"), name=who)
        who, sub = "", format_html("{}; {}", sub, by) if sub else format_html("{}", by)
    if event.type in _NAMES_NO_REQUEST and len(lookup.headings) > 1 and lookup.heading(event):
        sub = format_html("{}; {}", lookup.heading(event), sub) if sub else lookup.heading(event)
    return Entry(
        at=event.at,
        icon="person" if is_person and text.icon == "info" else text.icon,
        words=format_html("{}", words),
        sub=sub,
        tone=text.tone or ("person" if is_person else ""),
        who=who,
    )


def _fallback(event: Event, lookup: _Lookup) -> _Text:
    subject, __, verb = event.type.partition(".")
    named = event.refs.get("effect") or event.refs.get("subject") or event.refs.get("reason") or ""
    return _Text(
        words=f"{subject} {verb}".replace("_", " ").capitalize(), sub=render_exact(str(named)) if named else ""
    )


def _started(event: Event, lookup: _Lookup) -> _Text:
    person = event.refs.get("initiator")
    if not person:
        words = _("Run started by its agent")
    elif person == lookup.reader.get_username():
        words = _("Run started for You")
    else:
        words = format_html(_("Run started for {name}"), name=lookup.name(person))
    return _Text(words=words, icon="play")


def _suspended(event: Event, lookup: _Lookup) -> _Text:
    named = event.refs.get("interrupts", ())
    asked = [lookup.waits[wait] for wait in named if wait in lookup.waits]
    # The queues at that time: a request can have been escalated since. Older events name no queues.
    queues = [queue for wait, queue in zip(named, event.refs.get("queues", ()), strict=False) if wait in lookup.waits]
    queue_names = ", ".join(dict.fromkeys(code_labels.queue_title(str(queue)) for queue in queues if queue))
    words = (
        _("Sent a request to {queues}; worker released").format(queues=queue_names)
        if queue_names
        else _("Sent a request; worker released")
    )
    is_again = any(wait.renews_id for wait in asked)
    place = _("checkpoint {number}; asked again") if is_again else _("checkpoint {number}")
    requests = format_html_join("; ", "{}{}", ((lookup.headings[wait.public_id], _title(wait)) for wait in asked))
    sub = format_html(place, number=event.refs.get("checkpoint"))
    return _Text(words=words, sub=format_html("{}: {}", sub, requests) if asked else sub, icon="question")


def _answered(event: Event, lookup: _Lookup) -> _Text:
    decision = lookup.decision(event)
    verdict = code_labels.verdict_done(str(event.refs.get("verdict")))
    if event.refs.get("second_factor"):
        verdict = _("{verdict} with a second factor").format(verdict=verdict)
    if event.refs.get("standing_rule"):
        url = reverse("standing-rule", args=[event.refs["standing_rule"]])
        verdict = format_html(_('{verdict} by a <a href="{url}">standing rule</a>'), verdict=verdict, url=url)
    note = decision.message if decision is not None else ""
    if event.actor == "system:signal":
        return _Text(words=_("The expected signal arrived"), sub=_key(event.refs.get("signal")), icon="check")
    said = format_html('<q class="stated">{}</q>', render_exact(note[:300])) if note else ""
    edited = summarize_edit(decision, lookup.wait(event))
    sub = format_html("{} {}", edited, said) if edited else said
    heading = lookup.heading(event)
    words = format_html("{}: {}", verdict, heading) if heading else verdict
    return _Text(words=words, sub=sub, follows_name=True)


def _counted(event: Event, lookup: _Lookup) -> _Text:
    text = _answered(event, lookup)
    so_far = _("{counted} of {needed}.").format(counted=event.refs.get("counted"), needed=event.refs.get("needed"))
    if event.refs.get("votes_overtaken"):
        so_far = f"{so_far} {_('Earlier votes were for another version of the call.')}"
    sub = format_html("{} {}", so_far, text.sub)
    return _Text(words=text.words, sub=sub, icon="check", follows_name=text.follows_name)


def _refused(event: Event, lookup: _Lookup) -> _Text:
    decision = lookup.decision(event)
    tried = code_labels.verdict_done("answer" if decision is None else decision.verdict)
    words = _("{verdict}; the decision was refused").format(verdict=tried)
    sub = format_html(_("<code>{code}</code>; kept as a record"), code=event.refs.get("code"))
    return _Text(words=words, sub=sub, tone="warn", follows_name=True)


def _commented(event: Event, lookup: _Lookup) -> _Text:
    said = lookup.comments.get((str(event.refs.get("interrupt")), event.at))
    heading = lookup.heading(event)
    words = format_html(_("wrote a comment on: {heading}"), heading=heading) if heading else _("wrote a comment")
    return _Text(words=words, sub=render_exact(said[:300]) if said else "", icon="comment", follows_name=True)


def _claimed(event: Event, lookup: _Lookup) -> _Text:
    return _Text(words=_("claimed the request"), follows_name=True)


def _released(event: Event, lookup: _Lookup) -> _Text:
    if event.refs.get("people"):
        return _lost_by(event, _("A claim ended"))
    return _Text(words=_("released the claim"), follows_name=True)


def _unassigned(event: Event, lookup: _Lookup) -> _Text:
    return _lost_by(event, _("An assignment ended"))


def _vote_revoked(event: Event, lookup: _Lookup) -> _Text:
    return _lost_by(event, _("A vote was revoked"))


def _lost_by(event: Event, words: str) -> _Text:
    """Return what ended because the named people lost their permission."""
    names = list(map(str, event.refs.get("people") or ()))
    people = render_exact(", ".join(names), one_line=True)
    text = ngettext("{people} can no longer decide", "{people} can no longer decide", len(names))
    return _Text(words=words, sub=format_html(text, people=people), icon="lock", tone="warn")


def _expired(event: Event, lookup: _Lookup) -> _Text:
    do = str(event.refs.get("do"))
    sub = {
        "default": _("the policy’s default decision applies"),
        "resume": _("the agent continues without an answer"),
        "cancel": _("the run ends as expired"),
        "fail": _("the run ends as failed"),
    }.get(do, "")
    return _Text(words=_("The request expired unanswered"), sub=sub, icon="clock", tone="warn")


def _escalated(event: Event, lookup: _Lookup) -> _Text:
    after = code_labels.queue_title(str(event.refs.get("to")))
    before = code_labels.queue_title(str(event.refs.get("before")))
    words = _("Escalated from {before} to {after}: no answer in time").format(before=before, after=after)
    return _Text(words=words, icon="next", tone="warn")


def _renewed(event: Event, lookup: _Lookup) -> _Text:
    return _Text(words=_("A fact changed; the review was renewed"), sub=_facts(event), icon="change", tone="warn")


def _replanned(event: Event, lookup: _Lookup) -> _Text:
    words = _("A fact changed; the agent plans again and the decision is kept as a record")
    return _Text(words=words, sub=_facts(event), icon="change", tone="warn")


def _reported(event: Event, lookup: _Lookup) -> _Text:
    return _Text(words=_("The worker checked facts again"), sub=_facts(event), icon="round")


def _facts(event: Event) -> SafeString:
    names = ", ".join(str(name) for name in event.refs.get("facts", ()))
    return render_exact(names, one_line=True) if names else mark_safe("")


def _checkpoint(event: Event, lookup: _Lookup) -> _Text:
    number, file = event.refs.get("checkpoint", event.refs.get("number", "")), event.refs.get("file")
    words = format_html(_("Checkpoint {number}, with a file") if file else _("Checkpoint {number}"), number=number)
    step = event.refs.get("step")
    return _Text(words=words, sub=render_exact(str(step), one_line=True) if step else "", icon="flag")


def _ready(event: Event, lookup: _Lookup) -> _Text:
    return _Text(words=_("Checked again; the run can continue"), icon="check")


def _continued(event: Event, lookup: _Lookup) -> _Text:
    sub = _("attempt {number}").format(number=event.refs.get("attempt"))
    return _Text(words=_("A worker claimed the run and continued it"), sub=sub, icon="play")


def _denied(event: Event, lookup: _Lookup) -> _Text:
    words = _("The decision’s reviewer lost permission before the run continued; asked again")
    return _Text(words=words, icon="lock", tone="warn")


def _lost(event: Event, lookup: _Lookup) -> _Text:
    unknown = event.refs.get("in_doubt") or ()
    sub = _unknown(unknown, lookup) if unknown else _("the run continues from the last checkpoint")
    return _Text(words=_("The worker was lost"), sub=sub, icon="alert", tone="warn")


def _unknown(keys: Iterable[Any], lookup: _Lookup) -> SafeString:
    return format_html(_("unknown outcome: {effects}"), effects=lookup.effect_list(keys))


def _handed_back(event: Event, lookup: _Lookup) -> _Text:
    refs, sub = event.refs, render_exact(str(event.refs.get("reason", "")))
    if refs.get("reason") in UNREAD:
        version = str(refs.get("code_version") or "")
        code = (
            format_html(_("code version <code>{version}</code>"), version=render_exact(version, one_line=True))
            if version
            else _("no code version")
        )
        detail = str(refs.get("detail") or _("the worker cannot read the checkpoint"))
        sub = format_html("{}: {}; {}", sub, code, render_exact(detail))
    return _Text(
        words=_("The worker handed the run back"),
        sub=sub,
        icon="undo",
        tone="warn" if refs.get("reason") in UNREAD else "",
    )


def _retagged(event: Event, lookup: _Lookup) -> _Text:
    refs = event.refs
    version = render_exact(str(refs.get("code_version")), one_line=True)
    before = refs.get("before")
    if before:
        text = _("assigned the run to code version <code>{version}</code> instead of <code>{before}</code>")
        words = format_html(text, version=version, before=render_exact(str(before), one_line=True))
    else:
        words = format_html(_("assigned the run to code version <code>{version}</code>"), version=version)
    return _Text(words=words, sub=render_exact(str(refs.get("reason") or "")), icon="change", follows_name=True)


def _held(event: Event, lookup: _Lookup) -> _Text:
    words = code_labels.hold_label(str(event.refs.get("kind")))
    subject = str(event.refs.get("subject") or "")
    return _Text(words=words, sub=_subject(subject, lookup), icon="lock", tone="bad")


def _subject(subject: str, lookup: _Lookup) -> SafeString | str:
    """Return what a hold is about: an effect as its call, another subject as it is."""
    if subject in lookup.effects:
        return lookup.effect(subject)
    return render_exact(subject, one_line=True) if subject else ""


def _restored(event: Event, lookup: _Lookup) -> _Text:
    unknown = event.refs.get("in_doubt") or ()
    sub = _unknown(unknown, lookup) if unknown else ""
    words = _("A backup was restored; effects after the backup are unknown here")
    return _Text(words=words, sub=sub, icon="alert", tone="bad")


def _ending(event: Event, lookup: _Lookup) -> _Text:
    return _Text(
        words=_("The run is being ended"), sub=render_exact(str(event.refs.get("reason", ""))), icon="stop", tone="warn"
    )


def _ended(event: Event, lookup: _Lookup) -> _Text:
    status = event.type.partition(".")[2]
    word, icon, tone, __ = code_labels.run_label(status)
    reason = event.refs.get("reason")
    return _Text(
        words=_run_ended(word),
        sub=render_exact(str(reason)) if reason else "",
        icon=icon,
        tone="" if tone == "good" else tone,
    )


def _run_ended(word: str) -> str:
    return _("Run {status}").format(status=word)


def _effect(
    words: _Label, icon: str, tone: str = "", *, follows_name: bool = False
) -> Callable[[Event, _Lookup], _Text]:
    def text(event: Event, lookup: _Lookup) -> _Text:
        key = event.refs.get("effect")
        call = lookup.effects.get(str(key))
        shown = format_html("{}: {}", words, call) if call else str(words)
        return _Text(words=shown, sub=_key(key), icon=icon, tone=tone, follows_name=follows_name)

    return text


def _key(key: Any) -> SafeString:
    return format_html("<code>{}</code>", render_exact(str(key), one_line=True)) if key else mark_safe("")


def _title(wait: Interrupt) -> SafeString:
    """Return the agent's title of an approval; the heading of another request contains it."""
    if wait.kind != Kind.APPROVAL:
        return mark_safe("")
    return format_html(' <q class="stated">{}</q>', render_exact(wait.title, one_line=True))


def _happened(
    words: _Label, icon: str = "info", tone: str = "", *, follows_name: bool = False
) -> Callable[[Event, _Lookup], _Text]:
    def text(event: Event, lookup: _Lookup) -> _Text:
        reason = str(event.refs.get("reason") or "")
        sub = render_exact(reason) if reason else ""
        return _Text(words=str(words), sub=sub, icon=icon, tone=tone, follows_name=follows_name)

    return text


def _acted(words: _Label, icon: str = "info", tone: str = "") -> Callable[[Event, _Lookup], _Text]:
    return _happened(words, icon, tone, follows_name=True)


_TEXTS: dict[str, Callable[[Event, _Lookup], _Text]] = {
    "run.started": _started,
    "run.suspended": _suspended,
    "run.ending": _ending,
    "run.completed": _ended,
    "run.failed": _ended,
    "run.cancelled": _ended,
    "run.expired": _ended,
    "run.replanned": _replanned,
    "checkpoint.committed": _checkpoint,
    "run.pause_asked": _acted(gettext_lazy("asked to pause the run"), "pause", "warn"),
    "run.resumed": _acted(gettext_lazy("resumed the run"), "play"),
    "run.cancel_asked": _acted(gettext_lazy("asked to cancel the run"), "stop", "warn"),
    "run.retagged": _retagged,
    "run.restarted": _acted(gettext_lazy("restarted the run"), "round"),
    "interrupt.answered": _answered,
    "interrupt.amended": _happened(gettext_lazy("Amended the request; votes were reset"), "change", "warn"),
    "interrupt.withdrawn": _happened(gettext_lazy("Withdrew the request"), "undo", "warn"),
    PLANTED: _happened(
        gettext_lazy("Planted request: a lead wrote it to measure reviews, and nothing runs"), "eye", "warn"
    ),
    "interrupt.assigned": _acted(gettext_lazy("assigned the request")),
    "interrupt.extended": _acted(gettext_lazy("extended the deadline"), "clock"),
    "interrupt.commented": _commented,
    "attachment.added": _acted(gettext_lazy("attached a file"), "clip"),
    "decision.undone": _acted(gettext_lazy("undid the decision"), "undo", "warn"),
    "interrupt.claimed": _claimed,
    "interrupt.released": _released,
    "interrupt.unassigned": _unassigned,
    "vote.revoked": _vote_revoked,
    "interrupt.expired": _expired,
    "interrupt.escalated": _escalated,
    "decision.counted": _counted,
    "interrupt.reminded": _happened(gettext_lazy("The reviewers were reminded of the deadline"), "clock"),
    "timer.fired": _happened(gettext_lazy("The timer elapsed"), "clock"),
    "signal.refused": _happened(gettext_lazy("A signal arrived whose body did not match the request"), "alert", "warn"),
    "decision.refused": _refused,
    "review.renewed": _renewed,
    "resume.denied": _denied,
    "approval.revoked": _happened(
        gettext_lazy("An approval was revoked: its reviewer can no longer decide"), "lock", "warn"
    ),
    "facts.reported": _reported,
    "continuation.ready": _ready,
    "continuation.claimed": _continued,
    "lease.lost": _lost,
    "lease.handed_back": _handed_back,
    "hold.opened": _held,
    "run.restored": _restored,
    "records.written": _happened(gettext_lazy("Other records were stored"), "clock"),
    "snapshots.erased": _happened(
        gettext_lazy("Its snapshots were erased after the retention period; the history is kept"), "clock"
    ),
    "effect.begun": _effect(gettext_lazy("An effect began"), "bolt"),
    "effect.applied": _effect(gettext_lazy("An effect was applied"), "check"),
    "effect.failed": _effect(gettext_lazy("An effect failed and was not applied"), "cross", "bad"),
    "effect.unknown": _effect(gettext_lazy("An effect has an unknown outcome"), "question", "bad"),
    "effect.refused": _effect(gettext_lazy("An effect was refused"), "lock", "warn"),
    "effect.compensated": _effect(gettext_lazy("An effect was compensated"), "undo"),
    "effect.undo_waived": _effect(
        gettext_lazy("waived the compensation of an effect"), "flag", "warn", follows_name=True
    ),
    "run.compensating": _happened(gettext_lazy("Its effects are being compensated, newest first"), "undo", "warn"),
    "effect.settled": _effect(gettext_lazy("resolved an unknown outcome"), "check", follows_name=True),
    "effect.ordered_again": _effect(gettext_lazy("ordered an effect to be repeated"), "round", follows_name=True),
    "effect.contradiction_closed": _effect(gettext_lazy("closed a contradiction"), "check", follows_name=True),
    "effect.contradicted": _effect(gettext_lazy("A second report contradicts the first"), "alert", "bad"),
}


# --- changes that a reviewer made to a call ---------------------------------------------------------------------------


PLACES_SHOWN = 4
LONGEST_VALUE = 60


def summarize_edit(decision: Decision | None, wait: Interrupt | None) -> SafeString | str:
    """Return the first changed places of the call, with the old and the new value. The receipt has them all."""
    if decision is None or wait is None or decision.verdict != Verdict.EDIT or wait.proposal is None:
        return ""
    found = list_differences(arguments_shown_at(wait, decision.state_version), decision.arguments)
    told = [
        format_html("<code>{}</code> {} → {}", render_exact(it.place, one_line=True), _short(it.old), _short(it.new))
        for it in found[:PLACES_SHOWN]
    ]
    listed = format_html_join("; ", "{}", ((text,) for text in told))
    if len(found) <= PLACES_SHOWN:
        return listed
    return format_html(_("{changes}, and {number} more"), changes=listed, number=len(found) - PLACES_SHOWN)


def _short(value: Any) -> SafeString | str:
    if value is exact_json.ABSENT:
        return _("nothing")
    text = value if isinstance(value, str) else exact_json.dumps(value)
    return render_exact(text[:LONGEST_VALUE] + ("…" if len(text) > LONGEST_VALUE else ""), one_line=True)
