"""Fair shares of the threads: a request needs a share to run, and waits for it after its body has arrived.

No key and no address gets more than three quarters of the shares. The next share goes to the waiting request whose address
and key have the fewest, so that a flood from one address delays only itself. All of it runs on the event loop,
without locks.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from contextvars import ContextVar
from dataclasses import dataclass, field

#: The address, and the key or session of a request.
Holders = tuple[str, str]


@dataclass(kw_only=True, eq=False)
class Share:
    """The right to use one thread. Returning it twice does nothing."""

    shares: ThreadShares
    holders: Holders
    loop: asyncio.AbstractEventLoop
    is_held: bool = True

    def give_back(self) -> None:
        """Return the share, so that the next request can start. On the event loop only."""
        if self.is_held:
            self.is_held = False
            self.shares.return_share(self.holders)

    def give_back_from_thread(self) -> None:
        self.loop.call_soon_threadsafe(self.give_back)


current_share: ContextVar[Share | None] = ContextVar("current_share", default=None)


def has_share() -> bool:
    """Return whether this request runs under ``ThreadShares``, which it does not under another WSGI server."""
    return current_share.get() is not None


def give_back_while_waiting() -> None:
    """Return this request's share, because from now on it only waits."""
    share = current_share.get()
    if share is not None:
        share.give_back_from_thread()


@dataclass(kw_only=True)
class ThreadShares:
    """``threads`` shares, given to requests by address and key."""

    threads: int
    held: Counter[str] = field(default_factory=Counter)
    in_use: int = 0
    _waiting: dict[Holders, deque[asyncio.Future[None]]] = field(default_factory=dict)

    @property
    def most_of_one(self) -> int:
        """The number of shares that one address or one key can have."""
        return max(1, self.threads - max(1, self.threads // 4))

    async def take(self, holders: Holders, *, seconds: float) -> Share:
        """Wait for a share. Raises ``TimeoutError`` after ``seconds``."""
        loop = asyncio.get_running_loop()
        if self.in_use < self.threads and self._can_have_another(holders):
            self._give(holders)
        else:
            await self._wait(holders, loop.create_future(), seconds=seconds)
        return Share(shares=self, holders=holders, loop=loop)

    async def _wait(self, holders: Holders, future: asyncio.Future[None], *, seconds: float) -> None:
        self._waiting.setdefault(holders, deque()).append(future)
        try:
            async with asyncio.timeout(seconds):
                await future
        except BaseException:
            if future.done() and not future.cancelled():  # the share was given at the same time
                self.return_share(holders)
            else:
                self._forget(holders, future)
            raise

    def return_share(self, holders: Holders) -> None:
        """Take a share back, and give it to the request whose address and key have the fewest."""
        self.in_use -= 1
        for holder in holders:
            self.held[holder] -= 1
            if not self.held[holder]:
                del self.held[holder]
        while self.in_use < self.threads and (allowed := [it for it in self._waiting if self._can_have_another(it)]):
            chosen = min(allowed, key=lambda it: (self.held[it[0]], self.held[it[1]]))
            future = self._waiting[chosen].popleft()
            # To the end: two holders with equally many shares alternate.
            if rest := self._waiting.pop(chosen):
                self._waiting[chosen] = rest
            if not future.done():
                self._give(chosen)
                future.set_result(None)

    def _can_have_another(self, holders: Holders) -> bool:
        return all(self.held[holder] < self.most_of_one for holder in holders)

    def _give(self, holders: Holders) -> None:
        self.in_use += 1
        self.held.update(holders)

    def _forget(self, holders: Holders, future: asyncio.Future[None]) -> None:
        waiting = self._waiting.get(holders, deque())
        if future in waiting:
            waiting.remove(future)
        if not waiting:
            self._waiting.pop(holders, None)
