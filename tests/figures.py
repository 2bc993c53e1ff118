"""What a test has counted for the promises it proves: "50 races of eight answers at once: one counted".

A test names its promises by `@pytest.mark.proves(3, 7)` (`tests/promises.py` words them), and counts by `count`. The hooks
of `conftest.py` carry that with its report, across processes; below a run the figures are shown as a table, and
`manage.py test` gathers those of all its runs from the file that REVIEWQUEUE_FIGURES names.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.promises import PROMISES

#: The seed of a run that names none: such a run is the same each time.
FIXED_SEED = 1
#: What chance is drawn by where a test has a say in it; `manage.py test --seed N` gives it, and the table tells it.
SEED = int(os.environ.get("REVIEWQUEUE_SEED") or FIXED_SEED)
#: The seeds of the random histories, from ``SEED`` on; more than one by `manage.py test --seeds N`.
SEEDS = range(SEED, SEED + int(os.environ.get("REVIEWQUEUE_SEEDS") or 1))

#: What the running test has counted: (what, what came of it, of which promise) -> how often.
_counted: Counter[tuple[str, str, int]] = Counter()

#: What, what came of it, how often, and of which promise: 0 is each that the test proves.
Counted = tuple[str, str, int, int]


@dataclass(frozen=True, kw_only=True)
class Proof:
    """One test that has run, the promises it proves, and what it counted."""

    database: str
    test: str
    outcome: str
    promises: list[int]
    counted: list[Counted] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Row:
    """What a run saw of one promise."""

    promise: int
    n: int
    seen: str


def count(what: str, came: str, *, n: int = 1, of: int = 0) -> None:
    """Add ``n`` to what this test has counted: ``what`` in words after a number, ``came`` what came of all of them.

    It counts for each promise that the test proves, or for the one that ``of`` names.
    """
    _counted[what, came, of] += n


def take() -> list[Counted]:
    """Return what was counted since the last call."""
    taken = [(what, came, n, of) for (what, came, of), n in _counted.items()]
    _counted.clear()
    return taken


def rows_of(proofs: Iterable[Proof]) -> list[Row]:
    """Sum up by promise: what was counted, then the tests that passed without a count, then those that failed."""
    rows = []
    proofs = list(proofs)
    for promise in PROMISES:
        counted: Counter[tuple[str, str]] = Counter()
        plain, failed = 0, []
        for proof in proofs:
            if not _proves(proof, promise):
                continue
            if proof.outcome == "failed":
                failed.append(proof.test)
            its_own = [it for it in proof.counted if it[3] in (0, promise) or promise not in proof.promises]
            for what, came, n, _ in its_own:
                counted[what, came] += n
            plain += proof.outcome == "passed" and not its_own
        rows += [Row(promise=promise, n=n, seen=f"{what}: {came}") for (what, came), n in sorted(counted.items())]
        rows += [Row(promise=promise, n=plain, seen="tests: as promised")] if plain else []
        rows += [Row(promise=promise, n=1, seen=f"FAILED: {test}") for test in failed]
    return rows


def _proves(proof: Proof, promise: int) -> bool:
    """Promise 25 is that what proves 1 to 9 holds on SQLite too."""
    on_sqlite = promise == 25 and proof.database == "SQLite" and min(proof.promises) <= 9
    return on_sqlite or promise in proof.promises


def table(rows: Iterable[Row]) -> list[str]:
    """Return the lines that a terminal shows."""
    return [f"{row.promise:2}  {PROMISES[row.promise]:70}  {row.n:7,}  {row.seen}" for row in rows]


# --- from one run to the next -----------------------------------------------------------------------------------------


def keep(path: Path, proofs: Iterable[Proof]) -> None:
    with path.open("a") as file:
        file.writelines(json.dumps(asdict(proof)) + "\n" for proof in proofs)


def kept(path: Path) -> list[Proof]:
    return [_proof(json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


def _proof(said: dict[str, Any]) -> Proof:
    return Proof(**said | {"counted": [tuple(counted) for counted in said["counted"]]})
