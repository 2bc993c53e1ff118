"""Authentication of API calls: an agent by its key, or a person by a personal token, and the rate limit of each.
Session cookies are ignored.

Permissions are not checked here, except the one that tells the two apart: what only an agent, and only a person, may do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import AbstractUser, User
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from ledger.actors import agent_actor, person_actor
from ledger.log_context import note_ids
from reviewqueue.api.problems import TooManyCalls, Unauthenticated
from reviewqueue.models import ApiKey
from reviewqueue.operations.api_keys import is_still_good, verify_key
from reviewqueue.serving.client_address import client_network
from reviewqueue.serving.rate_limits import calls_of_key, failed_keys_of_address
from runs.errors import NotPermitted
from runs.models import Agent

REALM = 'Bearer realm="reviewqueue"'


@dataclass(frozen=True, kw_only=True)
class Caller:
    """The holder of the key of this request. Exactly one of ``agent`` and ``person`` is set."""

    key: ApiKey
    agent: Agent | None
    person: AbstractUser | None
    is_authenticated: bool = True

    @property
    def name(self) -> str:
        """Return the caller's name in the timeline: ``person:<address>`` or ``agent:<slug>``."""
        if self.person is not None:
            return person_actor(self.person)
        if self.agent is not None:
            return agent_actor(self.agent.slug)
        raise Unauthenticated

    @property
    def rate_limited_as(self) -> str:
        """Return whose calls are counted: of an agent each key, of a person all tokens together."""
        return f"key:{self.key.pk}" if self.person is None else f"person:{self.person.pk}"


class BearerKey(BaseAuthentication):
    """Authenticates by `Authorization: Bearer rq_...`."""

    def authenticate(self, request: Request) -> tuple[Caller, ApiKey]:
        """Return the caller. Raises ``Unauthenticated`` for a missing, unknown, expired or revoked key."""
        scheme, _, text = request.headers.get("Authorization", "").partition(" ")
        key = verify_key(text.strip()) if scheme.lower() == "bearer" else None
        if key is None:
            raise _refuse_key(request)
        note_ids(**{"agent": key.agent.slug} if key.agent is not None else {"person": str(key.person_id)})
        return Caller(key=key, agent=key.agent, person=key.person), key

    def authenticate_header(self, request: Request) -> str:
        """Return the `WWW-Authenticate` header of a 401."""
        return REALM


def _refuse_key(request: Request) -> Unauthenticated | TooManyCalls:
    """Count a call without a valid key against its address. A valid key from the same address is never refused for it."""
    seconds = failed_keys_of_address.take(client_network(request.META))
    return TooManyCalls(seconds=seconds) if seconds else Unauthenticated()


class CallsPerMinute(BaseThrottle):
    """Runs after authentication, so that a call with an invalid key does not count against the key's owner.

    DRF's rate throttles were not used: they read and write Django's cache in each call; these counts are in memory.
    """

    seconds = 0

    def allow_request(self, request: Request, view: Any) -> bool:
        caller = request.user
        if not isinstance(caller, Caller):
            return True
        self.seconds = calls_of_key.take(caller.rate_limited_as)
        return not self.seconds

    def wait(self) -> float:
        return self.seconds


def count_items(request: Request, count: int) -> None:
    """Count a batch as one call for each of its items. Raises ``TooManyCalls`` before any of them is processed."""
    seconds = calls_of_key.take_more(caller_of(request).rate_limited_as, count - 1)
    if seconds:
        raise TooManyCalls(seconds=seconds)


def caller_of(request: Request) -> Caller:
    """Return the caller. Raises ``Unauthenticated``."""
    caller = request.user
    if not isinstance(caller, Caller):
        raise Unauthenticated
    return caller


def recheck_key(request: Request) -> None:
    """Refuse a caller whose key expired or was revoked while the call waited."""
    if not is_still_good(caller_of(request).key):
        raise Unauthenticated


def worker_of(request: Request) -> Agent:
    """Return the agent of a key with the scope run. Raises ``NotPermitted``."""
    caller = caller_of(request)
    if caller.agent is None:
        raise NotPermitted("This call needs an agent's key; a personal token decides interrupts.")
    if "run" not in caller.key.scopes:
        raise NotPermitted("This key does not have the scope run.", scopes=caller.key.scopes)
    return caller.agent


def signaller_of(request: Request) -> Agent:
    """Return the agent of a key with the scope signal, which can be its only one. Raises ``NotPermitted``."""
    caller = caller_of(request)
    if caller.agent is None:
        raise NotPermitted("This call needs an agent's key; a personal token decides interrupts.")
    if "signal" not in caller.key.scopes:
        raise NotPermitted("This key does not have the scope signal.", scopes=caller.key.scopes)
    return caller.agent


def controller_of(request: Request) -> Caller:
    """Return a caller who can control runs: a person, or an agent's key with the scope control."""
    caller = caller_of(request)
    if caller.agent is not None and "control" not in caller.key.scopes:
        raise NotPermitted("This key does not have the scope control.", scopes=caller.key.scopes)
    return caller


def person_of(request: Request) -> AbstractUser:
    """Return the person of a personal token. Raises ``NotPermitted``: no agent's key can decide."""
    caller = caller_of(request)
    if caller.person is None:
        raise NotPermitted("This call needs a personal token: only a person can decide.")
    return caller.person


def check_reconciler(person: AbstractUser) -> User:
    """Refuse a person without access to the reconciliation admin. Raises ``NotPermitted``.

    The use cases check that the person is an owner or an operator.
    """
    if not (isinstance(person, User) and person.is_active and person.is_staff):
        raise NotPermitted("Only owners and operators with access to the reconciliation admin can do this.")
    return person
