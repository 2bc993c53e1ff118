"""Adapters of brokers: no message is lost, and a key that is not valid does not make dead letters. Skipped without them."""

from __future__ import annotations

import asyncio
import importlib
from types import SimpleNamespace
from typing import Any

import pytest
from reviewqueue_client import Refused, Unreachable
from reviewqueue_client.delivery import Outcome

REFUSALS: list[Refused | Unreachable] = [Refused(status, {}) for status in (401, 403, 404)]
REFUSALS += [Unreachable("a proxy", status) for status in (0, 401, 403, 404, 503)]
ABOUT_THE_MESSAGE: list[Refused | Unreachable] = [Refused(status, {}) for status in (409, 413, 422)]
ABOUT_THE_MESSAGE += [Unreachable("a proxy", 413)]
CLIENT: Any = None  # of publishers that create no request here


def client_that_raises(error: Exception | None) -> Any:
    async def signal(*_: Any, **__: Any) -> None:
        if error is not None:
            raise error

    return SimpleNamespace(signal=signal)


def adapter(name: str, monkeypatch: pytest.MonkeyPatch, *libraries: str) -> Any:
    for library in libraries:
        pytest.importorskip(library)
    module = importlib.import_module(f"reviewqueue_client.adapters.{name}")
    monkeypatch.setattr(module, "DELAY", 0.0, raising=False)
    return module


def redis_of(**functions: Any) -> Any:
    return SimpleNamespace(connection_pool=SimpleNamespace(connection_kwargs={}), **functions)


class Exchange:
    """An exchange whose broker gives this result: a confirmation, the returned message, or nothing."""

    def __init__(self, result: Any) -> None:
        self.result, self.published = result, []  # type: ignore[var-annotated]

    async def publish(self, message: Any, routing_key: str, **_: Any) -> Any:
        self.published.append((routing_key, message))
        return self.result


class AmqpMessage:
    body, headers, routing_key = b"{}", {}, "signals"  # type: ignore[var-annotated]
    content_type, correlation_id, message_id, type = "application/json", "K-1", "m-1", "paid"

    def __init__(self) -> None:
        self.became = ""

    async def ack(self) -> None:
        self.became = "acknowledged"

    async def reject(self, *, requeue: bool) -> None:
        self.became = "requeued" if requeue else "dropped"


OUTCOME = Outcome(id="o-1", key="K-1", status="cancelled", answer=None)


def test_an_outcome_that_no_queue_has_is_not_delivered(monkeypatch: pytest.MonkeyPatch):
    amqp = adapter("amqp", monkeypatch, "aio_pika")
    for result in (None, SimpleNamespace(delivery="returned")):
        publisher = amqp.OutcomePublisher(CLIENT, Exchange(result), routing_key="outcomes")
        with pytest.raises(amqp.NotConfirmed):
            asyncio.run(publisher.send("K-1", OUTCOME))
    asyncio.run(amqp.OutcomePublisher(CLIENT, Exchange(amqp.Basic.Ack()), routing_key="o").send("K-1", OUTCOME))


def test_a_dead_letter_that_no_queue_has_is_delivered_again(monkeypatch: pytest.MonkeyPatch):
    amqp = adapter("amqp", monkeypatch, "aio_pika")
    for result, became in ((None, "requeued"), (object(), "requeued"), (amqp.Basic.Ack(), "acknowledged")):
        message = AmqpMessage()
        client = client_that_raises(Refused(422, {}))
        asyncio.run(amqp.SignalConsumer(client, Exchange(result), dead="dead").handle(message))
        assert message.became == became


@pytest.mark.parametrize("error", [*REFUSALS, *ABOUT_THE_MESSAGE])
def test_only_what_is_about_the_message_is_a_dead_letter(error: Refused | Unreachable, monkeypatch: pytest.MonkeyPatch):
    amqp = adapter("amqp", monkeypatch, "aio_pika")
    exchange, message = Exchange(amqp.Basic.Ack()), AmqpMessage()
    asyncio.run(amqp.SignalConsumer(client_that_raises(error), exchange, dead="dead").handle(message))
    dead = error in ABOUT_THE_MESSAGE
    assert message.became == ("acknowledged" if dead else "requeued")
    assert [key for key, _ in exchange.published] == ["dead"] * dead


@pytest.mark.parametrize("error", [*REFUSALS, *ABOUT_THE_MESSAGE])
def test_only_what_is_about_the_message_is_a_dead_letter_of_nats(
    error: Refused | Unreachable, monkeypatch: pytest.MonkeyPatch
):
    nats = adapter("nats", monkeypatch, "nats")
    became: list[str] = []

    async def nak(**_: Any) -> None:
        became.append("delivered again")

    async def ack() -> None:
        became.append("acknowledged")

    async def publish(subject: str, *_: Any, **__: Any) -> None:
        became.append(subject)

    headers = {nats.CORRELATION: "K-1", nats.MESSAGE_ID: "m-1"}
    message = SimpleNamespace(data=b"{}", headers=headers, subject="signals.paid", nak=nak, ack=ack)
    stream = SimpleNamespace(publish=publish)
    asyncio.run(nats.SignalConsumer(client_that_raises(error), stream, dead="dead").handle(message))
    assert became == (["dead", "acknowledged"] if error in ABOUT_THE_MESSAGE else ["delivered again"])


@pytest.mark.parametrize("error", [*REFUSALS, *ABOUT_THE_MESSAGE])
def test_only_what_is_about_the_entry_is_a_dead_letter_of_redis(
    error: Refused | Unreachable, monkeypatch: pytest.MonkeyPatch
):
    redis = adapter("redis", monkeypatch, "redis")
    added: list[str] = []

    async def xadd(stream: str, _: Any) -> None:
        added.append(stream)

    entry = {b"correlation_id": b"K-1", b"message_id": b"m-1", b"type": b"paid", b"body": b"{}"}
    consumer = redis.SignalConsumer(client_that_raises(error), redis_of(xadd=xadd), dead="dead")
    if error in ABOUT_THE_MESSAGE:
        asyncio.run(consumer.handle(entry))
        assert added == ["dead"]
    else:
        with pytest.raises(type(error)):
            asyncio.run(consumer.handle(entry))
        assert added == []


def test_entries_are_read_again_after_the_idle_time_and_deleted_ones_are_skipped(monkeypatch: pytest.MonkeyPatch):
    redis = adapter("redis", monkeypatch, "redis")
    times: list[int] = []
    acknowledged: list[bytes] = []
    passed: list[Any] = []

    async def nothing(*_: Any, **__: Any) -> Any:
        return []

    async def xautoclaim(*_: Any, min_idle_time: int, **__: Any) -> Any:
        times.append(min_idle_time)
        if len(times) > 1:
            raise asyncio.CancelledError
        return [b"0-0", [(None, None), (b"2-0", None), (b"3-0", {b"type": b"paid"})], [b"1-0"]]

    async def xack(_: str, __: str, id_: bytes) -> None:
        acknowledged.append(id_)

    async def handle(entry: Any) -> None:
        passed.append(entry)

    client = redis_of(xgroup_create=nothing, xautoclaim=xautoclaim, xreadgroup=nothing, xack=xack)
    for options, expected in (({}, 60_000), ({"idle_seconds": 7}, 7_000)):
        times.clear()
        passed.clear()
        acknowledged.clear()
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(redis.consume(client, "signals", handle, group="buyer", consumer="agent", **options))
        assert times[0] == expected
        assert passed == [{b"type": b"paid"}]
        assert acknowledged == [b"3-0"]


def test_a_client_of_redis_that_decodes_is_refused(monkeypatch: pytest.MonkeyPatch):
    redis = adapter("redis", monkeypatch, "redis")
    decoding = redis.Redis(decode_responses=True)
    with pytest.raises(ValueError, match="decode_responses"):
        redis.SignalConsumer(CLIENT, decoding, dead="dead")
    with pytest.raises(ValueError, match="decode_responses"):
        redis.OutcomePublisher(CLIENT, decoding, stream="outcomes")
    redis.SignalConsumer(CLIENT, redis.Redis(), dead="dead")
