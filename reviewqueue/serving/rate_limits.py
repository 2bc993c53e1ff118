"""Rate limits: token buckets in the memory of this process, or in a shared server, one per key, person or address.

A bucket holds the requests of one minute and is refilled evenly. In memory it costs two microseconds and no statement.
Reasons, and the effect of several processes: docs/decisions/2026-11-30-limits-without-a-proxy.md.
"""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from django.conf import settings

from reviewqueue.serving import shared_buckets

#: The least recently used bucket is dropped. It is full again, unless this many clients come within a minute.
MAX_BUCKETS = 20_000


@dataclass(kw_only=True)
class RateLimit:
    """At most ``per_minute`` requests per holder, at once or spread out; 0 means no limit.

    ``name``: of the limit in the shared server; without one each process counts alone.
    """

    per_minute: int
    name: str = ""
    now: Callable[[], float] = time.monotonic
    _buckets: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, holder: str) -> int:
        """Count one request. Return 0 if it is allowed, else the seconds until the next one is allowed."""
        return self._take(holder, 1, needed=1)

    def take_more(self, holder: str, count: int) -> int:
        """Count the other items of a request that ``take`` has counted as one. Returns the same as ``take``.

        A full bucket allows a batch that is larger than the limit, and later requests wait for what it owes.
        """
        return self._take(holder, count, needed=min(count, self.per_minute - 1))

    def _take(self, holder: str, count: int, *, needed: int) -> int:
        if not self.per_minute:
            return 0
        shared = self._take_shared(holder, count, needed=needed)
        allowed, tokens = self._take_own(holder, count, needed=needed) if shared is None else shared
        return 0 if allowed else math.ceil((needed - tokens) * 60 / self.per_minute)

    def _take_shared(self, holder: str, count: int, *, needed: int) -> tuple[bool, float] | None:
        if not self.name:
            return None
        return shared_buckets.take(f"{self.name}:{holder}", per_minute=self.per_minute, count=count, needed=needed)

    def _take_own(self, holder: str, count: int, *, needed: int) -> tuple[bool, float]:
        now = self.now()
        with self._lock:
            tokens, filled_at = self._buckets.pop(holder, (float(self.per_minute), now))
            tokens = min(float(self.per_minute), tokens + (now - filled_at) * self.per_minute / 60)
            allowed = tokens >= needed
            self._buckets[holder] = (tokens - count if allowed else tokens, now)
            if len(self._buckets) > MAX_BUCKETS:
                self._buckets.popitem(last=False)
        return allowed, tokens


calls_of_key = RateLimit(name="calls_of_key", per_minute=settings.API_CALLS_PER_MINUTE)
failed_keys_of_address = RateLimit(name="failed_keys_of_address", per_minute=settings.FAILED_KEYS_PER_MINUTE)
pages_of_person = RateLimit(name="pages_of_person", per_minute=settings.PAGES_PER_MINUTE)
pages_of_address = RateLimit(name="pages_of_address", per_minute=settings.SIGNED_OUT_PAGES_PER_MINUTE)
