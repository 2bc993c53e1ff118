"""Input and result of a check: of ``n`` things, some break a promise and some are unknown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tests.nemesis.evidence import Database, Effect, Truth
from tests.nemesis.history import Call

HOLDS, BROKEN, UNKNOWN = "holds", "broken", "unknown"
FINAL = {"completed", "failed", "cancelled", "expired"}
TAKEN_BACK = FINAL - {"completed"}
ACCEPTED = {"accepted", "overtaken"}
PATIENCE = 30.0  # after a deadline, until an interrupt that is still open counts as forgotten: sweeps run each second
CLOCK = 0.2  # how exactly a client's own time and the database's are compared


@dataclass(kw_only=True)
class Finding:
    """The result of one check: of ``n`` things, some break the promise and some are unknown."""

    n: int = 0
    broken: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    promise: int
    n: int
    what: str
    verdict: str
    words: list[str]

    def __str__(self) -> str:
        return f"{self.promise:2} {self.verdict:7} {self.n:5} {self.what}" + "".join(
            f"\n   - {it}" for it in self.words
        )


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """All that is known of one run of the nemesis."""

    calls: Sequence[Call]
    database: Database
    truth: Truth

    def of(self, *verbs: str) -> Iterator[Call]:
        return (call for call in self.calls if call.verb in verbs)

    def arrived(self, effect: Effect) -> Sequence[float]:
        return self.truth.done.get(f"{effect.run}/{effect.key}", ())
