"""Wakes long polls when `runs.notify` announces work: one PostgreSQL connection of a web process listens for all of them.

Started by the first long poll of a process, on PostgreSQL only. A lost connection is made anew; until then nobody relies
on the bell. The rows are never read here.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import defaultdict

import psycopg
from django.conf import settings
from django.db import connection

from runs.notify import CHANNEL

log = logging.getLogger(__name__)

SECONDS_BEFORE_TRYING_AGAIN = 1.0


class Bell:
    """Counts the rings for each agent, and wakes those who wait: one of the lone ones a ring, all of the others."""

    def __init__(self) -> None:
        self.is_heard = False
        self._lock = threading.Lock()
        self._rings: defaultdict[int, int] = defaultdict(int)
        self._lone: dict[int, threading.Condition] = {}
        self._together: dict[int, threading.Condition] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="bell", daemon=True)

    def start(self) -> None:
        """Begin to listen, in a thread of its own."""
        self._thread.start()

    def stop(self) -> None:
        """Stop listening and let the connection go; for tests, since a process just ends."""
        self._stopped.set()
        self._thread.join()

    def rings(self, agent_id: int) -> int:
        """Return how often it rang for this agent."""
        with self._lock:
            return self._rings[agent_id]

    def ring(self, agent_id: int) -> None:
        """Wake who waits for this agent."""
        with self._lock:
            self._rings[agent_id] += 1
            if agent_id in self._lone:
                self._lone[agent_id].notify(1)
            if agent_id in self._together:
                self._together[agent_id].notify_all()

    def wait(self, agent_id: int, *, after: int, seconds: float, alone: bool) -> None:
        """Sleep until it rings for this agent, unless it did after ``after``; at most so long."""
        waiting = self._lone if alone else self._together
        with self._lock:
            if self._rings[agent_id] == after:
                waiting.setdefault(agent_id, threading.Condition(self._lock)).wait(seconds)

    def _listen(self) -> None:
        while not self._stopped.is_set():
            try:
                self._hear()
            except psycopg.Error as lost:
                self.is_heard = False
                log.warning("The bell is not heard: %s", lost)
                time.sleep(SECONDS_BEFORE_TRYING_AGAIN)

    def _hear(self) -> None:
        parameters = connection.get_connection_params() | {"autocommit": True}
        with psycopg.connect(**parameters) as listening:
            listening.execute(f"LISTEN {CHANNEL}")
            self.is_heard = True
            while not self._stopped.is_set():
                for notice in listening.notifies(timeout=1.0):
                    if notice.payload.isdigit():
                        self.ring(int(notice.payload))
        self.is_heard = False


_bell: Bell | None = None
_bell_of: int | None = None
_making = threading.Lock()


def bell_of_this_process() -> Bell | None:
    """Return the bell of this web process, listening from the first call on; ``None`` where there is none."""
    global _bell, _bell_of
    if connection.vendor != "postgresql" or settings.PROCESS != "web":
        return None
    with _making:
        if _bell is None or _bell_of != os.getpid():  # a fork has the object and not its thread
            _bell, _bell_of = Bell(), os.getpid()
            _bell.start()
        return _bell
