"""Keys of agents and personal tokens of people: made, verified, rotated, revoked. The secret is shown once.

The text is ``rq_<prefix>_<secret>``; the prefix finds the row, and only the secret's SHA-256 is kept. A slow hash would cost
more than the request, and the secret has 256 random bits. Called by the API's authentication and by `manage.py`.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import AbstractUser
from django.db import OperationalError
from django.db.models import DateTimeField, Q, QuerySet
from django.db.models.functions import Now

from ledger import clock
from ledger.prepared_queries import prepared
from ledger.public_ids import ALPHABET
from reviewqueue.models import ApiKey
from runs.models import Agent

log = logging.getLogger(__name__)

PREFIX_LENGTH = 12
LONGEST_TEXT = 200
SECONDS_BETWEEN_NOTES_OF_USE = 60

#: What an agent's key may do: ``run`` is everything a worker needs.
SCOPES = ("run", "control", "signal")

_TEXT = re.compile(rf"rq_(?P<prefix>[{ALPHABET}]{{{PREFIX_LENGTH}}})_(?P<secret>[A-Za-z0-9_-]{{43}})")
_NO_HASH = "0" * 64


@dataclass(frozen=True, kw_only=True)
class NewKey:
    """A key that was just made. ``text`` is in nobody's hands but the caller's, and is never seen again."""

    key: ApiKey
    text: str


@prepared
def _key_by_prefix(prefix: str) -> QuerySet[Any]:
    keys = ApiKey.objects.select_related("agent", "person").filter(prefix=prefix)
    return keys.annotate(asked_at=Now(output_field=DateTimeField()))


def make_agent_key(
    agent: Agent, *, name: str = "", scopes: tuple[str, ...] = SCOPES, expires_at: datetime | None = None
) -> NewKey:
    """Make a key that acts for one agent."""
    return _make(ApiKey(agent=agent, name=name, scopes=list(scopes), expires_at=expires_at))


def make_personal_token(person: AbstractUser, *, name: str = "", expires_at: datetime | None = None) -> NewKey:
    """Make a token that acts for one person, with that person's rights at each request."""
    return _make(ApiKey(person_id=person.pk, name=name, expires_at=expires_at))


def verify_key(text: str) -> ApiKey | None:
    """Return the key that ``text`` is, with its agent or person; ``None`` for one that is unknown, ended or revoked.

    One statement; a second one at most once a minute for a key, guarded, so that its row is not hot.
    """
    found = _TEXT.fullmatch(text) if len(text) <= LONGEST_TEXT else None
    if found is None:
        return None
    key = _key_by_prefix.first(prefix=found["prefix"])
    if not hmac.compare_digest(_hash(found["secret"]), _NO_HASH if key is None else key.secret_hash) or key is None:
        return None
    asked_at: datetime = key.asked_at
    if key.revoked_at is not None or (key.expires_at is not None and key.expires_at <= asked_at):
        return None
    if key.person is not None and not key.person.is_active:
        return None
    _note_use(key, asked_at)
    return key


def is_still_good(key: ApiKey) -> bool:
    """Tell whether a key that was verified a while ago is good now: a long poll may outlive it."""
    unended = Q(expires_at=None) | Q(expires_at__gt=Now(output_field=DateTimeField()))
    return ApiKey.objects.filter(unended, pk=key.pk, revoked_at=None).exclude(person__is_active=False).exists()


def rotate_key(key: ApiKey, *, overlap: timedelta) -> NewKey:
    """Make a key for the same holder with the same rights; the old one ends after ``overlap``, or when it would anyway."""
    end = clock.now() + overlap
    if key.expires_at is None or key.expires_at > end:
        ApiKey.objects.filter(pk=key.pk).update(expires_at=end)
    return _make(ApiKey(agent_id=key.agent_id, person_id=key.person_id, name=key.name, scopes=key.scopes))


def revoke_key(key: ApiKey) -> bool:
    """Take the key away at once. False: it was revoked before."""
    return bool(ApiKey.objects.filter(pk=key.pk, revoked_at=None).update(revoked_at=clock.now()))


def find_key(text: str) -> ApiKey | None:
    """Return the key named by its prefix, ``rq_<prefix>`` or the whole text: what a person can still see of it."""
    parts = text.strip().split("_")
    prefix = parts[1] if len(parts) > 1 and parts[0] == "rq" else text.strip()
    return ApiKey.objects.select_related("agent", "person").filter(prefix=prefix).first()


def _make(key: ApiKey) -> NewKey:
    secret = secrets.token_urlsafe(32)
    key.prefix = "".join(secrets.choice(ALPHABET) for _ in range(PREFIX_LENGTH))
    key.secret_hash = _hash(secret)
    key.save(force_insert=True)
    return NewKey(key=key, text=f"rq_{key.prefix}_{secret}")


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _note_use(key: ApiKey, asked_at: datetime) -> None:
    before = asked_at - timedelta(seconds=SECONDS_BETWEEN_NOTES_OF_USE)
    if key.last_used_at is not None and key.last_used_at > before:
        return
    long_ago = Q(last_used_at=None) | Q(last_used_at__lte=before)
    try:
        ApiKey.objects.filter(long_ago, pk=key.pk).update(last_used_at=asked_at)
    except OperationalError as fault:  # a full disk: who only reads is answered all the same
        log.warning("The use of a key could not be noted: %s", fault)
