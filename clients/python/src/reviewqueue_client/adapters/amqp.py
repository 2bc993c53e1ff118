"""AMQP 0-9-1 (RabbitMQ): outcomes go out as messages with a correlation id, and messages of others come in as signals."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from aio_pika import DeliveryMode, Message
from aio_pika.abc import AbstractExchange, AbstractIncomingMessage
from pamqp.commands import Basic
from reviewqueue_client import exact_json
from reviewqueue_client._async.client import AsyncClient
from reviewqueue_client._async.delivery import AsyncAnswers
from reviewqueue_client.delivery import Outcome, is_refused_for_good
from reviewqueue_client.errors import Refused, ReviewQueueError, Unreachable

log = logging.getLogger("reviewqueue_client")

#: Seconds until a message is delivered again that could not be passed on.
DELAY = 5.0


class NotConfirmed(ReviewQueueError):
    """The broker did not confirm that a queue has the message."""


class OutcomePublisher:
    """Publishes what became of requests. Create them with ``answers.create``; the target is the correlation id, a text.

    ``exchange``: of a channel with publisher confirms. Each message is persistent and has the outcome as JSON, the
    correlation id, and the outcome's id as `message_id`: a consumer must drop a repeated one.
    """

    def __init__(
        self, client: AsyncClient, exchange: AbstractExchange, *, routing_key: str, code_version: str = "amqp"
    ) -> None:
        self.answers = AsyncAnswers(client, code_version=code_version)
        self._exchange, self._routing_key = exchange, routing_key

    async def send(self, target: str, outcome: Outcome) -> None:
        """Publish one outcome: the function for ``answers.deliver``. Returns when the broker has confirmed it in a queue.

        Raises ``NotConfirmed`` if no queue has it, or the channel has no publisher confirms.
        """
        message = Message(
            exact_json.dumps(outcome.as_json()),
            content_type="application/json",
            delivery_mode=DeliveryMode.PERSISTENT,
            message_id=outcome.id,
            correlation_id=target,
            type="outcome",
        )
        await _publish(self._exchange, message, self._routing_key)

    async def run(self, *, cursor: str) -> None:
        """Publish without end. ``cursor``: the file that keeps the place in the event feed."""
        await self.answers.deliver(self.send, cursor=cursor)


def outcome_of(message: AbstractIncomingMessage) -> tuple[str, Outcome]:
    """Return the correlation id and the outcome of a message of ``OutcomePublisher``."""
    return str(message.correlation_id), Outcome.of(exact_json.loads(message.body))


class SignalConsumer:
    """Passes messages on as signals: at least once, and each message is one signal because its id is the signal's.

    A message must have the properties `correlation_id`, `message_id` and `type`, and JSON as its body. A message that is not
    so, or that the server refuses for good (409, 413 or 422), is published to ``exchange`` with the key ``dead`` and the
    reason in the header `reason`.
    """

    def __init__(self, client: AsyncClient, exchange: AbstractExchange, *, dead: str) -> None:
        self._client, self._exchange, self._dead = client, exchange, dead

    async def handle(self, message: AbstractIncomingMessage) -> None:
        """Pass one message on: the callback of a consumer with explicit acknowledgements."""
        given = {name: getattr(message, name) for name in ("correlation_id", "message_id", "type")}
        try:
            missing = [name for name, value in given.items() if not value]
            if missing:
                raise ValueError(f"the property {missing[0]} is missing")
            body = exact_json.loads(message.body)
            await self._client.signal(given["correlation_id"], type=given["type"], id=given["message_id"], body=body)
        except (ValueError, Refused, Unreachable) as error:
            if isinstance(error, (Refused, Unreachable)) and not is_refused_for_good(error):
                log.warning("a message with the key %s is delivered again: %s", message.routing_key, error)
                await _deliver_again(message)
                return
            reason = str(error)
            log.warning("a message with the key %s is a dead letter: %s", message.routing_key, reason)
            headers: dict[str, Any] = {**message.headers, "reason": reason[:500]}
            kept = Message(
                message.body, headers=headers, delivery_mode=DeliveryMode.PERSISTENT, **_properties_of(message)
            )
            try:
                await _publish(self._exchange, kept, self._dead)
            except Exception:
                log.exception("a dead letter is not stored, and its message is delivered again")
                await _deliver_again(message)
                return
        await message.ack()


async def _publish(exchange: AbstractExchange, message: Message, key: str) -> None:
    """Publish a message. A channel of aio-pika returns, and does not raise, a message that no queue has."""
    result = await exchange.publish(message, key, mandatory=True, timeout=30)
    if not isinstance(result, Basic.Ack):
        problem = "no queue has it" if result is not None else "the channel has no publisher confirms"
        raise NotConfirmed(f"A message with the key {key} was not confirmed: {problem}.")


async def _deliver_again(message: AbstractIncomingMessage) -> None:
    await asyncio.sleep(DELAY)
    await message.reject(requeue=True)


def _properties_of(message: AbstractIncomingMessage) -> dict[str, Any]:
    names = ("content_type", "correlation_id", "message_id", "type")
    return {name: getattr(message, name) for name in names if getattr(message, name)}
