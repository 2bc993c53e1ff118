"""The time limit and the minimum rate of a request body."""

from __future__ import annotations

import asyncio
import io
import threading
from typing import Any

import pytest

from reviewqueue.serving.request_bodies import MIB, BodyLimits, BodyTooSlow, ClientGone, StreamedBody, TimedBody

LIMITS = BodyLimits(seconds=30, rate=1024, grace=5)
IMPATIENT = BodyLimits(seconds=0.2, rate=1e9, grace=0.2)


def sender(*messages: dict[str, Any] | float | asyncio.Event) -> Any:
    """Return an ASGI ``receive``: messages, and between them silence, for seconds or until an event; at the end for ever."""
    left = list(messages)

    async def receive() -> dict[str, Any]:
        while left and not isinstance(left[0], dict):
            silence = left.pop(0)
            await (silence.wait() if isinstance(silence, asyncio.Event) else asyncio.sleep(silence))
        if not left:
            await asyncio.sleep(3600)
        return left.pop(0)

    return receive


def piece(body: bytes, *, more: bool = True) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


def whole(*messages: dict[str, Any] | float, limits: BodyLimits = LIMITS) -> bytes:
    return asyncio.run(TimedBody(receive=sender(*messages), limits=limits).whole())


def test_the_limits_are_those_of_the_page_of_settings():
    assert LIMITS.allowed(0) == 5  # the first byte
    assert LIMITS.allowed(2) < 6  # two bytes and silence
    assert LIMITS.allowed(10 * 1024) == 15  # a KiB a second after five seconds
    assert LIMITS.allowed(MIB - 1) == 30
    assert LIMITS.allowed(MIB) == 60  # another thirty seconds for each MiB begun
    assert LIMITS.allowed(64 * MIB) == 65 * 30


def test_a_body_in_pieces_is_whole():
    assert whole(piece(b"a"), 0.01, piece(b""), piece(b"bc", more=False)) == b"abc"


@pytest.mark.parametrize("sent", [[], [piece(b"ab")]], ids=["nothing", "two bytes"])
def test_a_body_that_stops_is_too_slow(sent):
    with pytest.raises(BodyTooSlow):
        whole(*sent, limits=IMPATIENT)


def test_a_body_that_drips_is_too_slow():
    drops = [it for _ in range(1000) for it in (piece(b"x"), 0.05)]
    with pytest.raises(BodyTooSlow):
        whole(*drops, limits=IMPATIENT)


def test_a_client_that_goes_is_gone():
    with pytest.raises(ClientGone):
        whole(piece(b"a"), {"type": "http.disconnect"})


def streamed(*messages: dict[str, Any] | float, limits: BodyLimits = LIMITS) -> tuple[Any, list[str]]:
    """Return what a thread reads, or what was raised there, and what was done before the first wait."""
    done: list[str] = []

    async def test() -> Any:
        body = TimedBody(receive=sender(*messages), limits=limits)
        raw = StreamedBody(body, asyncio.get_running_loop(), before_first=lambda: done.append("waits"))
        reader = io.BufferedReader(raw, buffer_size=8)
        assert not done
        return await asyncio.to_thread(lambda: list(iter(lambda: reader.read(3), b"")))

    return asyncio.run(test()), done


def test_a_thread_reads_a_large_body_piece_by_piece():
    read, done = streamed(piece(b"abcd"), 0.01, piece(b"efgh"), piece(b"i", more=False))
    assert (read, done) == ([b"abc", b"def", b"ghi"], ["waits"])


def test_a_thread_does_not_wait_for_a_large_body_that_stops():
    before = threading.active_count()
    with pytest.raises(BodyTooSlow):
        streamed(piece(b"abcd"), limits=IMPATIENT)
    assert threading.active_count() <= before


def test_the_time_of_a_body_begins_when_it_is_first_read_and_not_while_it_waits_for_a_thread():
    async def test() -> bytes:
        body = TimedBody(receive=sender(0.01, piece(b"ab", more=False)), limits=IMPATIENT)
        await asyncio.sleep(IMPATIENT.allowed(0) * 2)
        return await body.whole()

    assert asyncio.run(test()) == b"ab"
