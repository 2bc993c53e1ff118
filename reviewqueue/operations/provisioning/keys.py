"""Keys of agents. A key is returned once and stored nowhere."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db import transaction

from ledger import clock
from reviewqueue.models import ApiKey
from reviewqueue.operations import api_keys, audit_log
from reviewqueue.operations.api_keys import SCOPES, NewKey, create_agent_key
from reviewqueue.operations.provisioning.names import SYSTEM, ProvisioningError, find_agent
from runs.configuration_history import lock_head

MAX_OVERLAP = timedelta(days=90)
MAX_KEY_NAME_LENGTH = 100


@transaction.atomic
def add_agent_key(
    agent: str, *, scopes: Sequence[str], name: str = "", expires_at: datetime | None = None, actor: str = SYSTEM
) -> NewKey:
    """Add a key of an agent, for example one that can only send signals."""
    unknown = [scope for scope in scopes if scope not in SCOPES]
    if unknown or not scopes:
        raise ProvisioningError(f"A key must have one or more of the scopes {', '.join(SCOPES)}.")
    if len(name) > MAX_KEY_NAME_LENGTH:
        raise ProvisioningError(f"The name of a key must have at most {MAX_KEY_NAME_LENGTH} characters.")
    if expires_at is not None and expires_at <= clock.now():
        raise ProvisioningError("The expiry of a key must be in the future.")
    ordered = tuple(scope for scope in SCOPES if scope in scopes)
    made = create_agent_key(find_agent(agent), name=name, scopes=ordered, expires_at=expires_at)
    audit_log.record(made.key, actor=actor)
    return made


@transaction.atomic
def rotate_key(key_pk: int, *, overlap: timedelta, expires_at: datetime | None = None, actor: str = SYSTEM) -> NewKey:
    """Replace a valid key by a new one with the same name and scopes. The old key expires after ``overlap``."""
    if not timedelta(0) <= overlap <= MAX_OVERLAP:
        raise ProvisioningError(f"The overlap must be at most {MAX_OVERLAP.days} days.")
    lock_head()
    old = _lock_key(key_pk)
    now = clock.now()
    if old.revoked_at is not None or (old.expires_at is not None and old.expires_at <= now):
        raise ProvisioningError("There is no such key, or it is revoked or expired.")
    if expires_at is not None and expires_at <= now + overlap:
        raise ProvisioningError("The new key must expire after the old one.")
    before = audit_log.state_of(old)
    made = api_keys.rotate_key(old, overlap=overlap, expires_at=expires_at)
    old.refresh_from_db(fields=["expires_at"])
    audit_log.record(old, actor=actor, action="rotated", before=before)
    audit_log.record(made.key, actor=actor)
    return made


@transaction.atomic
def revoke_key(key_pk: int, *, actor: str = SYSTEM) -> ApiKey:
    """Revoke a key at once. A long poll of the key ends with 401."""
    lock_head()
    key = _lock_key(key_pk)
    before = audit_log.state_of(key)
    if not api_keys.revoke_key(key):
        raise ProvisioningError("This key was revoked before.")
    key.refresh_from_db(fields=["revoked_at"])
    audit_log.record(key, actor=actor, action="revoked", before=before)
    return key


def _lock_key(key_pk: int) -> ApiKey:
    return ApiKey.objects.select_for_update(of=("self",), no_key=True).select_related("agent", "person").get(pk=key_pk)
