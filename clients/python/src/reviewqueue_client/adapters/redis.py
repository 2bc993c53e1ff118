"""Redis streams (also Valkey): outcomes go out as entries with a correlation id, and others' entries come in as signals."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import RedisError, ResponseError
from reviewqueue_client import exact_json
from reviewqueue_client._async.client import AsyncClient
from reviewqueue_client._async.delivery import AsyncAnswers
from reviewqueue_client.delivery import Outcome, is_refused_for_good
from reviewqueue_client.errors import Refused, Unreachable

log = logging.getLogger("reviewqueue_client")

#: Seconds until an entry is read again that was not acknowledged. Longer than any function takes for one entry.
DELAY = 60.0
Entry = Mapping[bytes, bytes]


class OutcomePublisher:
    """Adds what became of requests to a stream. Create them with ``answers.create``; the target is the correlation id.

    Each entry has the fields `correlation_id`, `message_id` (the outcome's id: a consumer must drop a repeated one), `type`
    and `body`, the outcome as JSON.
    """

    def __init__(self, client: AsyncClient, redis: Redis, *, stream: str, code_version: str = "redis") -> None:
        self.answers = AsyncAnswers(client, code_version=code_version)
        self._redis, self._stream = _checked(redis), stream

    async def send(self, target: str, outcome: Outcome) -> None:
        """Add one outcome: the function for ``answers.deliver``. Returns when Redis has it."""
        body = exact_json.dumps(outcome.as_json())
        fields: dict[Any, Any] = {"correlation_id": target, "message_id": outcome.id, "type": "outcome", "body": body}
        await self._redis.xadd(self._stream, fields)

    async def run(self, *, cursor: str) -> None:
        """Add outcomes without end. ``cursor``: the file that keeps the place in the event feed."""
        await self.answers.deliver(self.send, cursor=cursor)


def outcome_of(entry: Entry) -> tuple[str, Outcome]:
    """Return the correlation id and the outcome of an entry of ``OutcomePublisher``."""
    return entry[b"correlation_id"].decode(), Outcome.of(exact_json.loads(entry[b"body"]))


class SignalConsumer:
    """Passes entries on as signals: at least once, and each entry is one signal because its `message_id` is the signal's.

    An entry must have the fields `correlation_id`, `message_id`, `type` and `body` (JSON). An entry that is not so, or that
    the server refuses for good (409, 413 or 422), is added to the stream ``dead`` with the field `reason`.
    """

    def __init__(self, client: AsyncClient, redis: Redis, *, dead: str) -> None:
        self._client, self._redis, self._dead = client, _checked(redis), dead

    async def handle(self, entry: Entry) -> None:
        """Pass one entry on: the function for ``consume``."""
        try:
            correlation, id_, type_ = (entry[name].decode() for name in (b"correlation_id", b"message_id", b"type"))
            body = exact_json.loads(entry[b"body"])
            await self._client.signal(correlation, type=type_, id=id_, body=body)
        except (KeyError, ValueError, Refused, Unreachable) as error:
            if isinstance(error, (Refused, Unreachable)) and not is_refused_for_good(error):
                raise  # the entry is read again
            reason = f"the field {error.args[0].decode()} is missing" if isinstance(error, KeyError) else str(error)
            log.warning("an entry is a dead letter: %s", reason)
            fields: dict[Any, Any] = {**entry, "reason": reason[:500]}
            await self._redis.xadd(self._dead, fields)


async def consume(
    redis: Redis,
    stream: str,
    function: Callable[[Entry], Awaitable[None]],
    *,
    group: str,
    consumer: str,
    idle_seconds: float = DELAY,
) -> None:
    """Call ``function`` with every entry of a stream, without end, and acknowledge the entry after it.

    If the function raises, or a process of the group dies, the entry is read again: ``function`` must drop an entry that it
    has seen. ``consumer``: the name of this process in the group. ``idle_seconds``: the time until it is read again, longer
    than any entry takes. While Redis cannot be reached, it tries again.
    """
    _checked(redis)
    while True:
        try:
            await _create_group(redis, stream, group)
            while True:
                left = await redis.xautoclaim(stream, group, consumer, min_idle_time=int(idle_seconds * 1000), count=10)
                read: Any = await redis.xreadgroup(group, consumer, {stream: ">"}, count=10, block=500)
                _raise_lost_cancellation()
                for id_, entry in [*left[1], *(entry for _, entries in read for entry in entries)]:
                    if entry is None:  # it was deleted or trimmed before its acknowledgement
                        continue
                    try:
                        await function(entry)
                    except RedisError:
                        raise
                    except Exception:
                        log.exception("the entry %s of %s is read again", id_, stream)
                    else:
                        await redis.xack(stream, group, id_)
        except (RedisError, OSError) as error:
            log.warning("Redis cannot be reached (%s)", type(error).__name__)
            await asyncio.sleep(0.5)


def _checked(redis: Redis) -> Redis:
    """Return the client, if its answers are bytes."""
    if redis.connection_pool.connection_kwargs.get("decode_responses"):
        raise ValueError("decode_responses must be False: the fields of entries are read as bytes.")
    return redis


def _raise_lost_cancellation() -> None:
    """End a cancelled task. redis-py 8.1 can lose a cancellation that arrives while it reads."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


async def _create_group(redis: Redis, stream: str, group: str) -> None:
    try:
        await redis.xgroup_create(stream, group, id="0", mkstream=True)
    except ResponseError as error:
        if "BUSYGROUP" not in str(error):
            raise
