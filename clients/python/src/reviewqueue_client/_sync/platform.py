"""What differs between asynchronous and blocking code: functions of users, sleeping, and the heartbeat."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, TypeAlias

import httpx

Function: TypeAlias = Callable[..., Any]
HttpClient: TypeAlias = httpx.Client
HttpTransport: TypeAlias = httpx.BaseTransport
sleep = time.sleep


def call(function: Function, *arguments: Any) -> Any:
    """Call a function of the user."""
    return function(*arguments)


class Heartbeat:
    """Calls ``beat`` every ``seconds``, from a thread, until it returns False or the heartbeat is closed."""

    def __init__(self, beat: Callable[[], bool], seconds: float) -> None:
        self._beat, self._seconds = beat, seconds
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reviewqueue-heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        while not self._closed.wait(self._seconds):
            if not self._beat():
                return

    def close(self) -> None:
        self._closed.set()
