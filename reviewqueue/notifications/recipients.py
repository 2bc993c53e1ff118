"""Recipients of an event: who is notified about it, and about which request, run or agent.

A rule returns people who have the permission now; it is checked again when their message is sent (``messages``). The
person who caused an event is not notified about it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractUser
from django.db.models import QuerySet

from ledger.actors import person_actor
from ledger.models import Effect
from reviewqueue import permissions
from reviewqueue.notifications.kinds import KIND_OF_EVENT, NotificationKind
from runs.models import Agent, Comment, Event, Hold, Interrupt, Queue, Run
from runs.use_cases.reconcile_outcomes import OPERATORS

MAX_MENTIONS = 20
MAX_ADDRESSEES = 500  # of one event: a larger group is not a group of reviewers
#: An address, or a name that ends with a letter, digit or underscore: punctuation after it belongs to the sentence.
_MENTION = re.compile(r"(?<![\w@.])@([\w.+-]{1,64}@[\w-]{0,62}\w(?:\.[\w-]{0,62}\w){1,8}|[\w.+-]{0,63}\w)")


@dataclass(frozen=True, kw_only=True)
class Notice:
    """One thing to report, and to whom. ``personal`` people are named by it, so no preference of a queue applies."""

    kind: NotificationKind
    key: str
    people: list[AbstractUser] = field(default_factory=list)
    personal: bool = False
    agent: Agent | None = None
    run: Run | None = None
    interrupt: Interrupt | None = None
    queue: Queue | None = None
    details: dict[str, Any] = field(default_factory=dict)


def notices_of(event: Event) -> Iterator[Notice]:
    """Return what an event of a feed reports; usually one notice, none for an event that concerns no person."""
    kind = KIND_OF_EVENT[event.type]
    if kind == NotificationKind.UNKNOWN:
        yield from _unknown_outcomes(event)
    elif kind == NotificationKind.HELD:
        yield from _holds(event)
    else:
        for interrupt in _interrupts_of(event):
            yield from _of_interrupt(event, kind, interrupt)


def _interrupts_of(event: Event) -> list[Interrupt]:
    named = event.refs.get("interrupts") or [event.refs.get("interrupt")]
    rows = Interrupt.objects.filter(public_id__in=[name for name in named if name], queue__isnull=False)
    return list(rows.select_related("queue", "run", "agent", "policy").order_by("id"))


def _of_interrupt(event: Event, kind: NotificationKind, interrupt: Interrupt) -> Iterator[Notice]:
    """Return the notices about one request: to its assignees personally, otherwise to the people who can decide it."""
    about: dict[str, Any] = {
        "agent": interrupt.agent,
        "run": interrupt.run,
        "interrupt": interrupt,
        "queue": interrupt.queue,
        "details": _numbers(event),
    }
    key = f"{event.digest}:{interrupt.public_id}"
    if kind == NotificationKind.MENTIONED:
        yield Notice(kind=kind, key=key, people=_mentioned(event, interrupt), personal=True, **about)
        return
    deciders = _without_actor(permissions.people_who_can_decide(interrupt), event)
    assigned = set(interrupt.assignees.filter(released_at=None).values_list("person", flat=True))
    personal = [person for person in deciders if person.pk in assigned]
    if kind == NotificationKind.EXPIRED and interrupt.run.initiator is not None:
        personal.append(interrupt.run.initiator)
    of_person = NotificationKind.ASSIGNED if kind == NotificationKind.REQUESTED else kind
    if personal:
        yield Notice(kind=of_person, key=key, people=personal, personal=True, **about)
    if kind != NotificationKind.ASSIGNED:
        named = {person.pk for person in personal}
        yield Notice(kind=kind, key=key, people=[one for one in deciders if one.pk not in named], **about)


def _numbers(event: Event) -> dict[str, Any]:
    """Return the numbers of an event that a message shows; never text of an agent."""
    return {name: event.refs[name] for name in ("level", "seconds_left", "do") if name in event.refs}


def _mentioned(event: Event, interrupt: Interrupt) -> list[AbstractUser]:
    comments = Comment.objects.filter(interrupt=interrupt, created_at=event.at)
    return _without_actor(find_mentioned_people([comment.text for comment in comments], interrupt), event)


def find_mentioned_people(texts: Iterable[str], interrupt: Interrupt) -> list[AbstractUser]:
    """Return the people whom comments name as ``@address`` or ``@name``, if they can see the request."""
    names = {found.lower() for text in texts for found in _MENTION.findall(text)[:MAX_MENTIONS]}
    people: list[AbstractUser] = []
    for name in sorted(names):
        rows = get_user_model().objects.filter(is_active=True)
        named = rows.filter(username=name) if "@" in name else rows.filter(username__startswith=f"{name}@")
        able = [one for one in named[:MAX_MENTIONS] if permissions.visible_interrupt(one, interrupt.public_id)]
        people += able if len(able) == 1 else []  # an ambiguous name notifies no person
    return people


def _unknown_outcomes(event: Event) -> Iterator[Notice]:
    keys = event.refs.get("in_doubt") or [event.refs.get("effect")]
    keys = [key for key in keys if key] if isinstance(keys, list) else []
    if not keys:
        return
    owners = Effect.objects.filter(scope=event.run.public_id, key__in=keys).values_list("owner", flat=True)
    yield _to_owners(event, NotificationKind.UNKNOWN, set(owners), details={"effects": len(keys)})


def _holds(event: Event) -> Iterator[Notice]:
    kind = event.refs.get("kind", "")
    holds = Hold.objects.filter(run=event.run, **({"kind": kind} if kind else {}), lifted_at=None)
    owners = set(holds.values_list("owner", flat=True)) or {event.run.agent.owner_id}
    yield _to_owners(event, NotificationKind.HELD, owners, details={"hold": kind or "restored"})


def _to_owners(event: Event, kind: NotificationKind, owners: set[int], *, details: dict[str, Any]) -> Notice:
    people = _without_actor(members_of(owners), event)
    run = event.run
    return Notice(kind=kind, key=event.digest, people=people, agent=run.agent, run=run, details=details)


def members_of(groups: Iterable[int]) -> QuerySet[AbstractUser]:
    """Return the active members of these groups."""
    return get_user_model().objects.filter(is_active=True, groups__in=list(groups)).distinct().order_by("pk")


def owners_and_operators(agent: Agent) -> QuerySet[AbstractUser]:
    """Return the people who answer for an agent: its owners and the operators."""
    rows = get_user_model().objects.filter(is_active=True)
    return (rows.filter(groups=agent.owner_id) | rows.filter(groups__name=OPERATORS)).distinct().order_by("pk")


def _without_actor(people: Iterable[AbstractUser], event: Event) -> list[AbstractUser]:
    limited = people[:MAX_ADDRESSEES] if isinstance(people, QuerySet) else list(people)
    return [person for person in limited if person_actor(person) != event.actor]
