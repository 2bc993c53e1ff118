"""Executes the code blocks of one page in the order in which a reader meets them: `python -m tests.docs_session PAGE`.

A block of `python` runs in one session per page, one with `title=NAME` is written to that file instead, `sh` runs in a
shell, `json` must be JSON, and a `text` block right after one that ran is what it printed (`...` matches anything).
Runs in the current folder. `tests/test_docs.py` starts the server.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FENCE = re.compile(r"^```(\w+)(?: title=(\S+))?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
EXECUTED = ("python", "sh")


@dataclass(frozen=True, kw_only=True)
class Block:
    language: str
    title: str
    text: str
    line: int
    follows: bool  # only blank lines between it and the block before


def blocks_of(page: Path) -> list[Block]:
    """Return the fenced blocks of a page."""
    return list(_blocks(page.read_text()))


def _blocks(text: str) -> Iterator[Block]:
    end = -1
    for found in FENCE.finditer(text):
        yield Block(
            language=found[1],
            title=found[2] or "",
            text=found[3],
            line=text.count("\n", 0, found.start()) + 1,
            follows=end >= 0 and not text[end : found.start()].strip(),
        )
        end = found.end()


def run(page: Path) -> None:
    """Execute all blocks until one fails."""
    session: dict[str, Any] = {"__name__": "__page__"}
    sys.path.insert(0, str(Path.cwd()))
    printed: str | None = None
    for block in blocks_of(page):
        where = f"{page.name}:{block.line}"
        if block.language == "text":
            if printed is not None and block.follows:
                compare(printed, block.text, where)
            printed = None
        elif block.language == "json":
            json.loads(block.text)
        elif block.title:
            Path(block.title).write_text(block.text)
        elif block.language == "python":
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile("\n" * block.line + block.text, str(page), "exec"), session)  # noqa: S102  our own pages
            printed = out.getvalue()
        elif block.language == "sh":
            printed = shell(block.text, where)
        else:
            raise AssertionError(f"{where}: cannot execute a block of {block.language}")


def shell(text: str, where: str) -> str:
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", text], capture_output=True, text=True, check=False)
    if done.returncode:
        raise AssertionError(f"{where} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def compare(printed: str, expected: str, where: str) -> None:
    pattern = ".*?".join(re.escape(part) for part in expected.split("..."))
    if not re.fullmatch(pattern, printed, re.DOTALL):
        raise AssertionError(f"{where}: expected\n{expected}\nbut it printed\n{printed}")


if __name__ == "__main__":
    run(Path(sys.argv[1]))
