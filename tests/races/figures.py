"""Figures of this session's races and kills, shown below the test run: what was tried how often, and what came of it."""

from __future__ import annotations

from collections import Counter

#: In words, such as "kills, an unknown effect settled by its owner".
COUNTED: Counter[str] = Counter()


def lines() -> list[str]:
    """Return the figures to show, and forget them: two folders ask for them."""
    counted = [f"{count:6} {words}" for words, count in sorted(COUNTED.items())]
    COUNTED.clear()
    return counted
