"""Wakes long polls on the notifications of `runs.notify`: one PostgreSQL connection per web process listens for all.

The first long poll of a process starts it, on PostgreSQL only. A lost connection is made again; until then polls do not rely
on notifications.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import defaultdict

import psycopg
from django.conf import settings
from django.db import connection, connections

from runs.run_status import CHANNEL

log = logging.getLogger(__name__)

SECONDS_BEFORE_RECONNECT = 1.0


class Listener:
    """Counts the notifications for each agent, and wakes polls: of those that wait alone one each time, and all others."""

    def __init__(self) -> None:
        self.is_connected = False
        self._lock = threading.Lock()
        self._counts: defaultdict[int, int] = defaultdict(int)
        self._alone: dict[int, threading.Condition] = {}
        self._together: dict[int, threading.Condition] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pg-listener", daemon=True)

    def start(self) -> None:
        """Listen in a thread of its own."""
        self._thread.start()

    def stop(self) -> None:
        """Stop listening and close the connection; for tests, since a process just ends."""
        self._stopped.set()
        self._thread.join()

    def count_of(self, agent_id: int) -> int:
        """Return the number of notifications for this agent so far."""
        with self._lock:
            return self._counts[agent_id]

    def notify(self, agent_id: int) -> None:
        """Count a notification, and wake the polls that wait for this agent."""
        with self._lock:
            self._counts[agent_id] += 1
            if agent_id in self._alone:
                self._alone[agent_id].notify(1)
            if agent_id in self._together:
                self._together[agent_id].notify_all()

    def wait(self, agent_id: int, *, after: int, seconds: float, alone: bool) -> None:
        """Sleep until there are more than ``after`` notifications for this agent, at most ``seconds``."""
        waiting = self._alone if alone else self._together
        with self._lock:
            if self._counts[agent_id] == after:
                waiting.setdefault(agent_id, threading.Condition(self._lock)).wait(seconds)

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._listen()
            except psycopg.Error as lost:
                self.is_connected = False
                log.warning("The connection for notifications is lost: %s", lost)
                self._stopped.wait(SECONDS_BEFORE_RECONNECT)

    def _listen(self) -> None:
        # LISTEN belongs to a session, which a pooler in transaction mode does not keep.
        listening = connections["direct" if "direct" in settings.DATABASES else "default"]
        parameters = listening.get_connection_params() | {"autocommit": True}
        with psycopg.connect(**parameters) as connected:
            connected.execute(f"LISTEN {CHANNEL}")
            self.is_connected = True
            while not self._stopped.is_set():
                for notification in connected.notifies(timeout=1.0):
                    if notification.payload.isdigit():
                        self.notify(int(notification.payload))
        self.is_connected = False


_listener: Listener | None = None
_listener_pid: int | None = None
_starting = threading.Lock()


def listener_of_process() -> Listener | None:
    """Return the listener of this web process, started by the first call; ``None`` without notifications."""
    global _listener, _listener_pid
    if connection.vendor != "postgresql" or settings.PROCESS != "web":
        return None
    with _starting:
        if _listener is None or _listener_pid != os.getpid():  # a forked process has the object but not its thread
            _listener, _listener_pid = Listener(), os.getpid()
            _listener.start()
        return _listener
