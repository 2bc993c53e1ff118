"""API keys of agents and personal tokens of people: create, verify, rotate, revoke. The secret is shown once.

A key is ``rq_<prefix>_<secret>``. The prefix finds the row; of the secret only the SHA-256 is stored. A slow hash would cost
more than the request, and is not needed for 256 random bits.
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
from ledger.prepared_queries import StatementTime, prepared
from ledger.public_ids import ALPHABET
from reviewqueue.models import ApiKey
from runs.models import Agent

log = logging.getLogger(__name__)

PREFIX_LENGTH = 12
MAX_KEY_LENGTH = 200
SECONDS_BETWEEN_USE_UPDATES = 60

#: Scopes of an agent's key. ``run`` covers everything a worker needs.
SCOPES = ("run", "control", "signal")

_TEXT = re.compile(rf"rq_(?P<prefix>[{ALPHABET}]{{{PREFIX_LENGTH}}})_(?P<secret>[A-Za-z0-9_-]{{43}})")
_NO_HASH = "0" * 64


@dataclass(frozen=True, kw_only=True)
class NewKey:
    """A new key. ``text`` includes the secret and cannot be read again later."""

    key: ApiKey
    text: str


@prepared
def _key_by_prefix(prefix: str) -> QuerySet[Any]:
    keys = ApiKey.objects.select_related("agent", "person").filter(prefix=prefix)
    return keys.annotate(checked_at=Now(output_field=DateTimeField()))


def create_agent_key(
    agent: Agent, *, name: str = "", scopes: tuple[str, ...] = SCOPES, expires_at: datetime | None = None
) -> NewKey:
    """Create a key that acts for one agent."""
    return _make(ApiKey(agent=agent, name=name, scopes=list(scopes), expires_at=expires_at))


def create_personal_token(person: AbstractUser, *, name: str = "", expires_at: datetime | None = None) -> NewKey:
    """Create a token that acts for one person, with the permissions that the person has at each request."""
    return _make(ApiKey(person_id=person.pk, name=name, expires_at=expires_at))


def verify_key(text: str) -> ApiKey | None:
    """Return the key with its agent or person; ``None`` if it is unknown, expired or revoked, or the person is inactive.

    Costs one statement, and a second one at most once a minute per key, which records the use.
    """
    found = _TEXT.fullmatch(text) if len(text) <= MAX_KEY_LENGTH else None
    if found is None:
        return None
    key = _key_by_prefix.first(prefix=found["prefix"])
    if not hmac.compare_digest(_hash(found["secret"]), _NO_HASH if key is None else key.secret_hash) or key is None:
        return None
    checked_at: datetime = key.checked_at
    if key.revoked_at is not None or (key.expires_at is not None and key.expires_at <= checked_at):
        return None
    if key.person is not None and not key.person.is_active:
        return None
    _record_use(key, checked_at)
    return key


def is_still_good(key: ApiKey) -> bool:
    """Return whether a key that was verified earlier is still valid: it can expire during a long poll."""
    return bool(_valid_key.all(pk=key.pk))


@prepared
def _valid_key(pk: int) -> QuerySet[ApiKey, tuple[int]]:
    unexpired = Q(expires_at=None) | Q(expires_at__gt=StatementTime())
    valid = ApiKey.objects.filter(unexpired, pk=pk, revoked_at=None).exclude(person__is_active=False)
    return valid.values_list("pk")


def rotate_key(key: ApiKey, *, overlap: timedelta, expires_at: datetime | None = None) -> NewKey:
    """Create a key for the same holder with the same scopes. The old key expires after ``overlap``, or earlier as before."""
    end = clock.now() + overlap
    if key.expires_at is None or key.expires_at > end:
        ApiKey.objects.filter(pk=key.pk).update(expires_at=end)
    return _make(
        ApiKey(agent_id=key.agent_id, person_id=key.person_id, name=key.name, scopes=key.scopes, expires_at=expires_at)
    )


def revoke_key(key: ApiKey) -> bool:
    """Revoke the key at once. Returns False if it was revoked before."""
    return bool(ApiKey.objects.filter(pk=key.pk, revoked_at=None).update(revoked_at=clock.now()))


def find_key(text: str) -> ApiKey | None:
    """Find a key by its prefix, by ``rq_<prefix>``, or by its whole text."""
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


def _record_use(key: ApiKey, checked_at: datetime) -> None:
    before = checked_at - timedelta(seconds=SECONDS_BETWEEN_USE_UPDATES)
    if key.last_used_at is not None and key.last_used_at > before:
        return
    long_ago = Q(last_used_at=None) | Q(last_used_at__lte=before)
    try:
        ApiKey.objects.filter(long_ago, pk=key.pk).update(last_used_at=checked_at)
    except OperationalError as fault:  # a full disk must not refuse a request that only reads
        log.warning("Could not record the use of an API key: %s", fault)
