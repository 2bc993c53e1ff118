"""What differs between asynchronous and blocking code: functions of users, sleeping, and the heartbeat."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import httpx

Function: TypeAlias = Callable[..., Awaitable[Any] | Any]
HttpClient: TypeAlias = httpx.AsyncClient
HttpTransport: TypeAlias = httpx.AsyncBaseTransport
sleep = asyncio.sleep


async def call(function: Function, *arguments: Any) -> Any:
    """Call a function of the user, which may be a coroutine function."""
    result = function(*arguments)
    return await result if inspect.isawaitable(result) else result


class Heartbeat:
    """Calls ``beat`` every ``seconds`` until it returns False or the heartbeat is closed."""

    def __init__(self, beat: Callable[[], Awaitable[bool]], seconds: float) -> None:
        self._beat, self._seconds = beat, seconds
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        await asyncio.sleep(self._seconds)
        while await self._beat():
            await asyncio.sleep(self._seconds)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
