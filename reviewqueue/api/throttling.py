"""The rate limit: calls per minute of each agent's key, and of each person over all their tokens."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from reviewqueue.api.authentication import Caller
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
        holder = f"key:{caller.key.pk}" if caller.person is None else f"person:{caller.person.pk}"
        self.seconds = calls_of_key.take(holder)
        return not self.seconds

    def wait(self) -> float:
        return self.seconds
