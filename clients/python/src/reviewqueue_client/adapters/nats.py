"""NATS JetStream: outcomes go out as messages with a correlation id, and messages of other systems come in as signals."""

from __future__ import annotations

import logging
from typing import Any

from nats.aio.msg import Msg
from nats.js import JetStreamContext
from reviewqueue_client import exact_json
from reviewqueue_client._async.client import AsyncClient
from reviewqueue_client._async.delivery import AsyncAnswers
from reviewqueue_client.delivery import Outcome, is_refused_for_good
from reviewqueue_client.errors import Refused, Unreachable

log = logging.getLogger("reviewqueue_client")

CORRELATION = "Correlation-Id"
MESSAGE_ID = "Nats-Msg-Id"
#: Seconds until a message is delivered again that could not be passed on.
DELAY = 5.0


class OutcomePublisher:
    """Publishes what became of requests. Create them with ``answers.create``; the target is the correlation id, a text.

    Each message has the outcome as JSON, the correlation id, and the outcome's id as `Nats-Msg-Id`: JetStream drops a
    repeated one within its window, and a consumer must drop it later.
    """

    def __init__(
        self, client: AsyncClient, stream: JetStreamContext, *, subject: str, code_version: str = "nats"
    ) -> None:
        self.answers = AsyncAnswers(client, code_version=code_version)
        self._stream, self._subject = stream, subject

    async def send(self, target: str, outcome: Outcome) -> None:
        """Publish one outcome: the function for ``answers.deliver``. Returns when the stream has stored it."""
        headers = {MESSAGE_ID: outcome.id, CORRELATION: target}
        await self._stream.publish(self._subject, exact_json.dumps(outcome.as_json()), headers=headers)

    async def run(self, *, cursor: str) -> None:
        """Publish without end. ``cursor``: the file that keeps the place in the event feed."""
        await self.answers.deliver(self.send, cursor=cursor)


def outcome_of(message: Msg) -> tuple[str, Outcome]:
    """Return the correlation id and the outcome of a message of ``OutcomePublisher``."""
    headers = message.headers or {}
    return headers[CORRELATION], Outcome.of(exact_json.loads(message.data))


class SignalConsumer:
    """Passes messages on as signals: at least once, and each message is one signal because its id is the signal's.

    A message must have `Correlation-Id` and `Nats-Msg-Id` in its headers and JSON as its body; the last part of its
    subject is the type. A message that is not so, or that the server refuses for good (409, 413 or 422), is published to
    ``dead`` with the reason in the header `Reason`.
    """

    def __init__(self, client: AsyncClient, stream: JetStreamContext, *, dead: str) -> None:
        self._client, self._stream, self._dead = client, stream, dead

    async def handle(self, message: Msg) -> None:
        """Pass one message on: the callback of a subscription with explicit acknowledgements."""
        headers = message.headers or {}
        try:
            body = exact_json.loads(message.data)
            correlation, id_ = headers[CORRELATION], headers[MESSAGE_ID]
            await self._client.signal(correlation, type=message.subject.rpartition(".")[2], id=id_, body=body)
        except (KeyError, ValueError, Refused, Unreachable) as error:
            if isinstance(error, (Refused, Unreachable)) and not is_refused_for_good(error):
                log.warning("a message on %s is delivered again: %s", message.subject, error)
                await message.nak(delay=DELAY)
                return
            reason = f"the header {error} is missing" if isinstance(error, KeyError) else str(error)
            log.warning("a message on %s is a dead letter: %s", message.subject, reason)
            kept: dict[str, Any] = {**headers, "Reason": " ".join(reason.split())[:500]}
            kept.pop(MESSAGE_ID, None)
            await self._stream.publish(self._dead, message.data, headers=kept)
        await message.ack()
