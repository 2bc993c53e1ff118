"""Sessions of people: when each was active, and their end from elsewhere. Every stored session of a person can be ended."""

from __future__ import annotations

from datetime import datetime

from allauth.usersessions.models import UserSession
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import AbstractUser
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session
from django.core.cache import caches
from django.db.models import QuerySet
from django.http import HttpRequest

from ledger import clock
from reviewqueue.models import PersonActivity

#: A session's activity is written at most this often (seconds) by each process, so that most pages write nothing.
ACTIVITY_INTERVAL = 300


def record_activity(request: HttpRequest, person: AbstractUser) -> None:
    """Store that the person of this session was active now. Creates the session's row if there is none."""
    key = request.session.session_key
    if not key or not caches["process"].add(f"activity:{key}", 1, timeout=ACTIVITY_INTERVAL):
        return
    now = clock.now()
    PersonActivity.objects.bulk_create(
        [PersonActivity(person_id=person.pk, seen_at=now)],
        update_conflicts=True,
        unique_fields=["person"],
        update_fields=["seen_at"],
    )
    if not UserSession.objects.filter(session_key=key, user=person.pk).update(last_seen_at=now):
        UserSession.objects.create_from_request(request)


def list_sessions(person: AbstractUser) -> list[UserSession]:
    """Return the person's live sessions, the last active one first. Rows of sessions that have ended are deleted."""
    stored = Session.objects.filter(expire_date__gt=clock.now()).values("session_key")
    UserSession.objects.filter(user=person.pk).exclude(session_key__in=stored).delete()  # allauth deletes one by one
    live: list[UserSession] = UserSession.objects.purge_and_list(person)
    return sorted(live, key=lambda session: session.last_seen_at, reverse=True)


def last_seen(people: list[int]) -> dict[int, datetime]:
    """Return when each person was last active, by primary key."""
    return dict(PersonActivity.objects.filter(person__in=people).values_list("person", "seen_at"))


def any_expired_session() -> bool:
    return _expired().exists()


def delete_expired_sessions(*, limit: int) -> int:
    """Delete stored sessions whose time is over, and their rows in the list of sessions. Returns their number."""
    keys = list(_expired().values_list("session_key", flat=True)[:limit])
    UserSession.objects.filter(session_key__in=keys).delete()
    return Session.objects.filter(session_key__in=keys).delete()[0]


def _expired() -> QuerySet[Session]:
    return Session.objects.filter(expire_date__lt=clock.now())


def end_session(person: AbstractUser, pk: int) -> bool:
    """End one session of the person; return whether there was one. Its next request is signed out."""
    session = UserSession.objects.filter(user=person.pk, pk=pk).first()
    if session is None:
        return False
    session.end()
    return True


def end_sessions(person: AbstractUser, *, but: str | None = None) -> int:
    """End every session of the person but the one with this key, and return how many.

    Reads the stored sessions themselves, because one from before an upgrade has no row in the list of sessions.
    """
    ended = 0
    for session in Session.objects.filter(expire_date__gt=clock.now()).iterator():
        if session.session_key == but or session.get_decoded().get(SESSION_KEY) != str(person.pk):
            continue
        SessionStore(session.session_key).delete()
        ended += 1
    UserSession.objects.filter(user=person.pk).exclude(session_key=but or "").delete()
    return ended
