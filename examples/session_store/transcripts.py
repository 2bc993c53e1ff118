"""The session store of the example: a table of messages."""

import os
import sqlite3
from contextlib import closing
from typing import Any

COLUMNS = "id INTEGER PRIMARY KEY, session, role, content, run, UNIQUE (session, role, run)"


def connect() -> sqlite3.Connection:
    store = sqlite3.connect(os.environ.get("TRANSCRIPTS", "transcripts.sqlite3"), timeout=60, isolation_level=None)
    store.execute(f"CREATE TABLE IF NOT EXISTS messages ({COLUMNS})")
    return store


def append(session: str, role: str, content: str, *, run: str | None = None) -> None:
    """Append a message. Of one run, the same role is appended once."""
    with closing(connect()) as store:
        row = (session, role, content, run)
        store.execute("INSERT OR IGNORE INTO messages (session, role, content, run) VALUES (?, ?, ?, ?)", row)


def messages_of(session: str, *, without: str) -> list[dict[str, Any]]:
    """Return the messages of a session, without those of one run."""
    with closing(connect()) as store:
        query = "SELECT role, content FROM messages WHERE session = ? AND run IS NOT ? ORDER BY id"
        return [{"role": role, "content": content} for role, content in store.execute(query, (session, without))]
