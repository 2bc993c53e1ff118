"""Who speaks to the API: an agent by its key, or a person by a personal token. Session cookies count for nothing here.

Called by DRF before every view. Rights are not judged here, except the one between the two: what only an agent may do, and
what only a person may do.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib.auth.models import AbstractUser
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from ledger.actors import by_agent, by_person
from reviewqueue.api.problems import TooManyCalls, Unauthenticated
from reviewqueue.models import ApiKey
from reviewqueue.operations.api_keys import is_still_good, verify_key
from reviewqueue.serving.client_address import client_network
from reviewqueue.serving.rate_limits import failed_keys_of_address
from runs.errors import NotPermitted
from runs.models import Agent

REALM = 'Bearer realm="reviewqueue"'


@dataclass(frozen=True, kw_only=True)
class Caller:
    """Whoever holds the key of this request: exactly one of ``agent`` and ``person`` is there."""

    key: ApiKey
    agent: Agent | None
    person: AbstractUser | None
    is_authenticated: bool = True

    @property
    def name(self) -> str:
        """Return what the timeline calls this caller: ``person:<address>`` or ``agent:<slug>``."""
        if self.person is not None:
            return by_person(self.person)
        if self.agent is not None:
            return by_agent(self.agent.slug)
        raise Unauthenticated


class BearerKey(BaseAuthentication):
    """`Authorization: Bearer rq_...`, and nothing else."""

    def authenticate(self, request: Request) -> tuple[Caller, ApiKey]:
        """Return the caller. Raises ``Unauthenticated`` for a missing, unknown, ended or revoked key."""
        scheme, _, text = request.headers.get("Authorization", "").partition(" ")
        key = verify_key(text.strip()) if scheme.lower() == "bearer" else None
        if key is None:
            raise _refuse_key(request)
        return Caller(key=key, agent=key.agent, person=key.person), key

    def authenticate_header(self, request: Request) -> str:
        """Return what a 401 asks for."""
        return REALM


def _refuse_key(request: Request) -> Unauthenticated | TooManyCalls:
    """Count a call without a good key against its address. A good key from the same address is never refused for it."""
    seconds = failed_keys_of_address.take(client_network(request.META))
    return TooManyCalls(seconds=seconds) if seconds else Unauthenticated()


def caller_of(request: Request) -> Caller:
    """Return who speaks."""
    caller = request.user
    if not isinstance(caller, Caller):
        raise Unauthenticated
    return caller


def check_again(request: Request) -> None:
    """Refuse a caller whose key was taken back while the call waited."""
    if not is_still_good(caller_of(request).key):
        raise Unauthenticated


def worker_of(request: Request) -> Agent:
    """Return the agent whose worker speaks. A person's token does no worker's work."""
    caller = caller_of(request)
    if caller.agent is None:
        raise NotPermitted("Only an agent's key does this; a personal token answers questions.")
    if "run" not in caller.key.scopes:
        raise NotPermitted("This key has not the scope run.", scopes=caller.key.scopes)
    return caller.agent


def signaller_of(request: Request) -> Agent:
    """Return the agent to which a business system speaks, with a key of the scope signal; it may have that one alone."""
    caller = caller_of(request)
    if caller.agent is None:
        raise NotPermitted("Only an agent's key sends signals; a personal token answers questions.")
    if "signal" not in caller.key.scopes:
        raise NotPermitted("This key has not the scope signal.", scopes=caller.key.scopes)
    return caller.agent


def controller_of(request: Request) -> Caller:
    """Return who controls runs: a person, or an agent whose key has the scope control."""
    caller = caller_of(request)
    if caller.agent is not None and "control" not in caller.key.scopes:
        raise NotPermitted("This key has not the scope control.", scopes=caller.key.scopes)
    return caller


def person_of(request: Request) -> AbstractUser:
    """Return the person who speaks. No agent's key decides, whoever asks for it."""
    caller = caller_of(request)
    if caller.person is None:
        raise NotPermitted("Only a person decides this: with a personal token, or on the page.")
    return caller.person
