"""Counters of the processes of `web`, in memory that they share since the fork: each scrape shows the sum of all.

prometheus_client's multiprocess mode was not used: it maps files, so a full disk ends the process by SIGBUS, and a scrape
parses the name of every series of every process, also of those that died.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import tempfile
import threading
from collections.abc import Iterable
from pathlib import Path

_BYTES = 8  # of a float


class SharedCounters:
    """``columns`` numbers for each of ``places``, which are created before the fork.

    A process writes to a place of its own, which it holds by a lock of the kernel. A process that is started for one that
    died takes over its place and continues its counts, so that no sum ever decreases.
    """

    def __init__(self, *, columns: int, places: int) -> None:
        self.columns, self.places = columns, places
        self._numbers = memoryview(mmap.mmap(-1, _BYTES * columns * places)).cast("d")
        self._places, path = tempfile.mkstemp()  # an empty file without a name, open as long as the process
        Path(path).unlink()
        self._lock = threading.Lock()
        self._place = self._holder = -1

    def add(self, amounts: Iterable[tuple[int, float]]) -> None:
        """Add each amount to its column."""
        with self._lock:
            if self._holder != os.getpid():
                self._place, self._holder = self._take_place(), os.getpid()
            start = self._place * self.columns
            for column, amount in amounts:
                self._numbers[start + column] += amount

    def sums(self, first: int, count: int) -> list[float]:
        """Return the sums over all processes of ``count`` columns from ``first`` on."""
        rows = (
            self._numbers[place * self.columns + first : place * self.columns + first + count].tolist()
            for place in range(self.places)
        )
        return [sum(column) for column in zip(*rows, strict=True)]

    def _take_place(self) -> int:
        """Return a free place. The last one is shared if all are taken; an increment can then be lost."""
        for place in range(self.places - 1):
            try:
                fcntl.lockf(self._places, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
            except OSError:
                continue
            return place
        return self.places - 1
