"""Counts that a test reports for the promises it proves, such as "50 races of eight answers at once: one counted".

A test names its promises by ``@pytest.mark.proves(3, 7)`` (``tests/promises.py``) and counts by ``count``. The hooks of
``conftest.py`` carry the counts with the test's report across processes. Each run ends with a table of them, and
``manage.py test`` collects those of all its parts from the file that REVIEWQUEUE_FIGURES names.
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

#: The seed of a run without ``--seed``: such a run is the same each time.
FIXED_SEED = 1
#: The seed of everything that tests draw at random; ``manage.py test --seed N`` sets it.
SEED = int(os.environ.get("REVIEWQUEUE_SEED") or FIXED_SEED)
#: The seeds of the random histories, from ``SEED`` upwards; more than one by ``manage.py test --seeds N``.
SEEDS = range(SEED, SEED + int(os.environ.get("REVIEWQUEUE_SEEDS") or 1))

#: Counts of the running test: (trial, result, promise) -> times.
_counted: Counter[tuple[str, str, int]] = Counter()

#: The trial and the result of a test that counts nothing, and the result of one that failed.
TESTS, PASSED, FAILED = "tests of one case each", "passed", "FAILED"

#: Trial, result, times, and the promise it counts for; 0 means every promise that the test proves.
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
    """One kind of trial of one promise, how often it ran, and the result of all of them."""

    promise: int
    n: int
    what: str
    result: str

    @property
    def failed(self) -> bool:
        return self.result == FAILED


def count(what: str, result: str, *, n: int = 1, of: int = 0) -> None:
    """Add ``n`` trials: ``what`` names them in the plural, ``result`` is the result of all of them.

    They count for each promise that the test proves, or for promise ``of`` alone.
    """
    _counted[what, result, of] += n


def take() -> list[Counted]:
    """Return the counts since the last call, and reset them."""
    taken = [(what, result, n, of) for (what, result, of), n in _counted.items()]
    _counted.clear()
    return taken


def rows_of(proofs: Iterable[Proof]) -> list[Row]:
    """Sum up by promise: counted trials, then passed tests without counts, then failed tests."""
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
            for what, result, n, _ in its_own:
                counted[what, result] += n
            plain += proof.outcome == "passed" and not its_own
        rows += [Row(promise=promise, n=n, what=what, result=result) for (what, result), n in sorted(counted.items())]
        rows += [Row(promise=promise, n=plain, what=TESTS, result=PASSED)] if plain else []
        rows += [Row(promise=promise, n=1, what=test, result=FAILED) for test in failed]
    return rows


def _proves(proof: Proof, promise: int) -> bool:
    """Whether it counts for the promise. Promise 25 is: SQLite keeps 1 to 9."""
    on_sqlite = promise == 25 and proof.database == "SQLite" and min(proof.promises) <= 9
    return on_sqlite or promise in proof.promises


def table(rows: Iterable[Row]) -> list[str]:
    """Return the lines for a terminal."""
    return [f"{row.promise:2}  {PROMISES[row.promise]:70}  {row.n:7,}  {row.what}: {row.result}" for row in rows]


# --- between processes ------------------------------------------------------------------------------------------------


def save(path: Path, proofs: Iterable[Proof]) -> None:
    with path.open("a") as file:
        file.writelines(json.dumps(asdict(proof)) + "\n" for proof in proofs)


def load(path: Path) -> list[Proof]:
    return [_proof(json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


def _proof(saved: dict[str, Any]) -> Proof:
    return Proof(**saved | {"counted": [tuple(counted) for counted in saved["counted"]]})
