"""Keys over time: what an overlap, an expiry and a revocation do to a key that is in use."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ledger import clock
from reviewqueue.models import ApiKey
from reviewqueue.operations.api_keys import (
    create_agent_key,
    create_personal_token,
    is_still_good,
    revoke_key,
    rotate_key,
    verify_key,
)
from tests import builders

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)  # SQLite's own time has milliseconds only


def expiry_of(key: ApiKey):
    return ApiKey.objects.get(pk=key.pk).expires_at


def test_a_rotated_key_without_an_end_expires_after_the_overlap():
    old = create_agent_key(builders.an_agent(), scopes=("run",), name="worker-1")
    before = clock.now()

    new = rotate_key(old.key, overlap=HOUR)

    assert before + HOUR <= expiry_of(old.key) <= clock.now() + HOUR
    assert (new.key.agent, new.key.scopes, new.key.name) == (builders.an_agent(), ["run"], "worker-1")
    assert expiry_of(new.key) is None
    assert verify_key(old.text) is not None
    ApiKey.objects.filter(pk=old.key.pk).update(expires_at=clock.now() - SECOND)
    assert verify_key(old.text) is None
    assert verify_key(new.text) is not None


def test_an_expiry_after_the_overlap_is_brought_forward_to_its_end():
    old = create_agent_key(builders.an_agent(), expires_at=clock.now() + 30 * HOUR).key
    rotate_key(old, overlap=HOUR)
    assert expiry_of(old) <= clock.now() + HOUR


def test_an_expiry_before_the_end_of_the_overlap_is_not_postponed():
    end = clock.now() + HOUR
    old = create_agent_key(builders.an_agent(), expires_at=end).key
    rotate_key(old, overlap=30 * HOUR)
    assert expiry_of(old) == end


def test_a_key_that_expired_revoked_or_lost_its_person_ends_a_long_poll():
    person = builders.a_reviewer()
    lasting = create_personal_token(person, expires_at=clock.now() + HOUR).key
    endless = create_personal_token(person).key
    expired = create_agent_key(builders.an_agent(), expires_at=clock.now() - SECOND).key
    revoked = create_agent_key(builders.an_agent()).key
    revoke_key(revoked)
    assert [is_still_good(key) for key in (lasting, endless, expired, revoked)] == [True, True, False, False]
    person.is_active = False
    person.save()
    assert [is_still_good(key) for key in (lasting, endless)] == [False, False]
