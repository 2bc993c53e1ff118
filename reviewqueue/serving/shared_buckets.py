"""Token buckets in Redis or Valkey (`CACHE_URL`), so that all processes and nodes count one limit together.

One script takes from a bucket by the clock of the server, so that neither two nodes nor two clocks count twice. A server
that lets a socket wait for a fifth of a second is left alone for five seconds; meanwhile each process counts for itself.
"""

from __future__ import annotations

import logging
import time
from functools import cache
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.utils.crypto import salted_hmac

if TYPE_CHECKING:
    from redis import Redis

log = logging.getLogger(__name__)

PREFIX = "reviewqueue:limit:"
SECONDS_TO_ANSWER = 0.2
SECONDS_LEFT_ALONE = 5.0

#: Returns whether the request is allowed, and the tokens before it. Tokens are written as text, because Redis cuts numbers.
_TAKE = """
local per_minute, count, needed = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local clock = redis.call('TIME')
local now = clock[1] + clock[2] / 1000000
local bucket = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local tokens = per_minute
if bucket[1] then
  tokens = math.min(per_minute, bucket[1] + math.max(0, now - bucket[2]) * per_minute / 60)
end
local left, allowed = tokens, 0
if tokens >= needed then
  left, allowed = tokens - count, 1
end
redis.call('HSET', KEYS[1], 'tokens', tostring(left), 'at', string.format('%.6f', now))
redis.call('EXPIRE', KEYS[1], math.ceil((per_minute - left) * 60 / per_minute) + 1)
return {allowed, tostring(tokens)}
"""


class _Server:
    """The connections of this process to the server, and until when it is left alone."""

    def __init__(self, address: str) -> None:
        import redis

        self.client: Redis = redis.Redis.from_url(
            address,
            socket_connect_timeout=SECONDS_TO_ANSWER,
            socket_timeout=SECONDS_TO_ANSWER,
            retry=None,
            client_name="reviewqueue",
        )
        # Two installations can use one database of the server. The processes of one have the same SECRET_KEY.
        self.prefix = f"{PREFIX}{salted_hmac(PREFIX, '', algorithm='sha256').hexdigest()[:8]}:"
        self.take = self.client.register_script(_TAKE)
        self.fault = redis.RedisError
        self.left_alone_until = 0.0


@cache
def _server(address: str) -> _Server:
    return _Server(address)


def take(name: str, *, per_minute: int, count: int, needed: int) -> tuple[bool, float] | None:
    """Take ``count`` tokens if the bucket has ``needed`` ones. Return whether it had, and the tokens before.

    ``None`` without `CACHE_URL`, and while the server does not answer.
    """
    if not settings.CACHE_URL:
        return None
    server = _server(settings.CACHE_URL)
    if time.monotonic() < server.left_alone_until:
        return None
    try:
        allowed, tokens = _read(server.take(keys=[server.prefix + name], args=[per_minute, count, needed]))
    except (server.fault, OSError) as problem:
        server.left_alone_until = time.monotonic() + SECONDS_LEFT_ALONE
        log.warning("CACHE_URL does not answer, so each process counts its limits alone: %s", type(problem).__name__)
        return None
    return allowed, tokens


def _read(returned: Any) -> tuple[bool, float]:
    allowed, tokens = returned
    return bool(allowed), float(tokens)


def find_fault() -> str:
    """Return why the server does not answer; empty if it does, or if there is none."""
    if not settings.CACHE_URL:
        return ""
    server = _server(settings.CACHE_URL)
    try:
        server.client.ping()
    except (server.fault, OSError) as problem:
        return type(problem).__name__
    return ""
