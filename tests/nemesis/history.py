"""The history of client calls. Each call is on disk before it is made, so that a kill leaves it unknown.

Each process writes its own file, and `read` merges them. Times are this machine's clock. No client gets a wrong clock;
processes of the product may.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

OK, REFUSED, UNKNOWN = "ok", "refused", "unknown"


@dataclass(frozen=True, kw_only=True)
class Call:
    """``about``: what the client knew when it called; ``told``: the response. A call whose client was killed has no
    ``ended``.
    """

    client: str
    verb: str
    about: dict[str, Any] = field(default_factory=dict)
    began: float = 0.0
    ended: float | None = None
    outcome: str = UNKNOWN
    status: int = 0
    code: str = ""
    told: dict[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return self.outcome == OK


class Record:
    """The file of one process."""

    def __init__(self, folder: Path, client: str) -> None:
        self.client = client
        self._file = (folder / f"{client}-{time.time_ns()}.history").open("a", buffering=1)
        self._number = 0

    def begin(self, verb: str, about: Mapping[str, Any]) -> int:
        self._number += 1
        begun = {"client": self.client, "verb": verb, "about": dict(about), "began": time.time()}
        self._write({"number": self._number, **begun})
        return self._number

    def end(self, number: int, *, outcome: str, status: int = 0, code: str = "", told: Mapping[str, Any]) -> None:
        ended = {"ended": time.time(), "outcome": outcome, "status": status, "code": code, "told": dict(told)}
        self._write({"number": number, **ended})

    def close(self) -> None:
        self._file.close()

    def _write(self, words: dict[str, Any]) -> None:
        self._file.write(json.dumps(words) + "\n")


def read(folder: Path) -> list[Call]:
    """Return every call of every process, in the order in which they began."""
    calls = []
    for path in sorted(folder.glob("*.history")):
        by_number: dict[int, dict[str, Any]] = {}
        for line in path.read_text().splitlines():
            try:
                words = json.loads(line)
            except ValueError:
                continue  # killed while it wrote: the beginning of a call that was never made, or an end never learnt
            by_number.setdefault(words.pop("number"), {}).update(words)
        calls += [Call(**words) for words in by_number.values() if "verb" in words]
    return sorted(calls, key=lambda call: call.began)
