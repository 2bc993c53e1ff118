"""The rate limit: calls per minute of each agent's key, and of each person over all their tokens."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from reviewqueue.api.authentication import Caller, caller_of
from reviewqueue.api.problems import TooManyCalls
from reviewqueue.serving.rate_limits import calls_of_key


class CallsPerMinute(BaseThrottle):
    """Runs after authentication, so that a call with an invalid key does not count against the key's owner.

    DRF's rate throttles were not used: they read and write Django's cache in each call; these counts are in memory.
    """

    seconds = 0

    def allow_request(self, request: Request, view: Any) -> bool:
        caller = request.user
        if not isinstance(caller, Caller):
            return True
        self.seconds = calls_of_key.take(_holder_of(caller))
        return not self.seconds

    def wait(self) -> float:
        return self.seconds


def count_items(request: Request, count: int) -> None:
    """Count a batch as one call for each of its items. Raises ``TooManyCalls`` before any of them is processed."""
    seconds = calls_of_key.take_more(_holder_of(caller_of(request)), count - 1)
    if seconds:
        raise TooManyCalls(seconds=seconds)


def _holder_of(caller: Caller) -> str:
    return f"key:{caller.key.pk}" if caller.person is None else f"person:{caller.person.pk}"
