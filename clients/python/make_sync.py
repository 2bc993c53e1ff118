"""Derive `_sync` from `_async`: `python make_sync.py` writes the modules, `--check` fails if they are not current."""

from __future__ import annotations

import re
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent / "src" / "reviewqueue_client"
DERIVED = ("__init__.py", "client.py", "delivery.py", "run.py", "worker.py")
NOTE = "# Derived from `_async` by make_sync.py; change that instead.\n"
REPLACEMENTS = [
    (r"The asynchronous client. `make_sync.py` derives .*\.\"\"\"", 'The blocking client."""'),
    (r"\basync (def|with|for) ", r"\1 "),
    (r"\bawait ", ""),
    (r"\bAsync(Answers|Client|RunHandle|Run|Worker)\b", r"\1"),
    (r"\b__aenter__\b", "__enter__"),
    (r"\b__aexit__\b", "__exit__"),
    (r"\baclose\b", "close"),
    (r"reviewqueue_client\._async\b", "reviewqueue_client._sync"),
]


def derived(source: str) -> str:
    """Return the blocking form of an asynchronous module."""
    for pattern, replacement in REPLACEMENTS:
        source = re.sub(pattern, replacement, source)
    return NOTE + source


def stale() -> list[Path]:
    """Return the modules of `_sync` that differ from what `_async` gives, without regard to line breaks."""
    return [
        PACKAGE / "_sync" / name
        for name in DERIVED
        if not (PACKAGE / "_sync" / name).exists()
        or _flat((PACKAGE / "_sync" / name).read_text()) != _flat(derived((PACKAGE / "_async" / name).read_text()))
    ]


def _flat(source: str) -> str:
    """Return the source as a formatter cannot change it: without blanks and trailing commas, imports sorted."""
    lines = sorted(line for line in source.splitlines() if line.startswith(("from ", "import ")))
    rest = "".join(line for line in source.splitlines() if not line.startswith(("from ", "import ")))
    return "".join(lines) + re.sub(r",(?=[)\]}])|[()]", "", re.sub(r"\s+", "", rest))


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit("\n".join(f"{path} is not current: run make_sync.py" for path in stale()) or 0)
    for name in DERIVED:
        (PACKAGE / "_sync" / name).write_text(derived((PACKAGE / "_async" / name).read_text()))
