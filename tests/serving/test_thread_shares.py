"""Thread shares: no key and no address gets all of them, and the next goes to the holder with the fewest."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from reviewqueue.serving.thread_shares import Share, ThreadShares

FLOOD = ("192.0.2.1", "key a")
OTHER = ("192.0.2.2", "key b")
NEIGHBOUR = ("192.0.2.1", "key c")


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 20))


async def take(shares: ThreadShares, holders: tuple[str, str]) -> Share:
    return await shares.take(holders, seconds=10)


async def begun(*waiting: Coroutine[Any, Any, Share]) -> list[asyncio.Task[Share]]:
    tasks = [asyncio.ensure_future(it) for it in waiting]
    await asyncio.sleep(0)
    return tasks


def test_one_address_leaves_a_quarter_of_the_threads():
    async def test() -> None:
        shares = ThreadShares(threads=12)
        [await take(shares, FLOOD) for _ in range(9)]
        [tenth] = await begun(take(shares, FLOOD))
        assert (tenth.done(), shares.in_use) == (False, 9)
        others = [await take(shares, OTHER) for _ in range(3)]
        assert len(others) == 3
        tenth.cancel()

    run(test())


def test_one_key_leaves_a_quarter_of_the_threads_whatever_its_addresses():
    async def test() -> None:
        shares = ThreadShares(threads=4)
        [await take(shares, (f"192.0.2.{n}", "key a")) for n in range(3)]
        [fourth] = await begun(take(shares, ("192.0.2.9", "key a")))
        assert not fourth.done()
        await take(shares, OTHER)
        fourth.cancel()

    run(test())


def test_the_next_share_goes_to_the_holder_with_the_fewest():
    async def test() -> None:
        shares = ThreadShares(threads=4)
        held = [await take(shares, FLOOD) for _ in range(3)] + [await take(shares, ("192.0.2.3", "key d"))]
        flood = await begun(*(take(shares, FLOOD) for _ in range(50)))
        [neighbour, other] = await begun(take(shares, NEIGHBOUR), take(shares, OTHER))
        held[0].give_back()
        await asyncio.sleep(0)
        assert (other.done(), neighbour.done(), sum(it.done() for it in flood)) == (True, False, 0)
        held[1].give_back()
        await asyncio.sleep(0)
        assert (neighbour.done(), sum(it.done() for it in flood)) == (True, 0)
        [it.cancel() for it in flood]

    run(test())


def test_a_share_returned_twice_counts_once():
    async def test() -> None:
        shares = ThreadShares(threads=2)
        share = await take(shares, FLOOD)
        share.give_back()
        share.give_back()
        assert (shares.in_use, shares.held) == (0, {})

    run(test())


def test_a_request_that_waits_too_long_leaves_nothing_behind():
    async def test() -> None:
        shares = ThreadShares(threads=1)
        held = await take(shares, FLOOD)
        with pytest.raises(TimeoutError):
            await shares.take(OTHER, seconds=0.01)
        held.give_back()
        assert (shares.in_use, shares.held, shares._waiting) == (0, {}, {})

    run(test())


def test_a_share_lent_to_a_request_that_is_gone_is_not_lost():
    async def test() -> None:
        shares = ThreadShares(threads=1)
        held = await take(shares, FLOOD)
        [waiting] = await begun(take(shares, OTHER))
        held.give_back()  # lent to the other one, which ends before it hears of that
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert (shares.in_use, shares.held) == (0, {})

    run(test())


def test_every_request_of_a_flood_is_served_in_the_end():
    async def test() -> None:
        shares, served = ThreadShares(threads=3), []

        async def request(holders: tuple[str, str]) -> None:
            share = await take(shares, holders)
            assert shares.in_use <= 3
            await asyncio.sleep(0)
            served.append(holders)
            share.give_back()

        await asyncio.gather(*(request((f"address {n % 7}", f"key {n % 11}")) for n in range(500)))
        assert (len(served), shares.in_use, shares.held, shares._waiting) == (500, 0, {}, {})

    run(test())
