"""When a request is sent again. Every request of this client is safe to repeat: it has a key, a lease or a token."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

#: Statuses of a proxy or a server that is not ready, whose body is not a problem.
RETRYABLE_STATUSES = frozenset({408, 429, 500, 502, 503, 504})


@dataclass(frozen=True)
class Retries:
    """Exponential backoff with full jitter, and never sooner than the server's `Retry-After`. Times are in seconds."""

    attempts: int = 8
    base: float = 0.5
    cap: float = 30.0
    random: random.Random = field(default_factory=random.SystemRandom, repr=False, compare=False)

    def delay(self, attempt: int, retry_after: str | None = None) -> float:
        """Return how long to wait after the failed ``attempt``, counted from 1."""
        delay = self.random.uniform(0, min(self.cap, self.base * 2 ** min(attempt, 16)))
        return max(delay, seconds_of(retry_after))


def seconds_of(retry_after: str | None) -> float:
    """Return the seconds of a `Retry-After` header; 0 without one. This server sends seconds, never a date."""
    try:
        return max(0.0, float(retry_after or 0))
    except ValueError:
        return 0.0
