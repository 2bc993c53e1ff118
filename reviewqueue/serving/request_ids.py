"""Request ids: one per request, in its response, in its problem, and in every log line that it writes.

A client or proxy can set `X-Request-ID`. An id that is too long or has other characters is replaced, so that it cannot forge
log lines. The id is only for finding things: it proves nothing and need not be unique.
"""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

HEADER = "X-Request-ID"
#: Its key in the request's `META`.
ENVIRON = "reviewqueue.request_id"
NONE = "-"

_ACCEPTED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:=+/-]{0,63}")
_current: ContextVar[str] = ContextVar("request_id", default=NONE)


def choose_request_id(sent: str) -> str:
    """Return ``sent`` if it has at most 64 letters, digits and ``. _ : = + / -``, else a new id."""
    return sent if _ACCEPTED.fullmatch(sent) else new_id("req")


def new_id(prefix: str) -> str:
    return f"{prefix}_{secrets.token_hex(10)}"


def current_request_id() -> str:
    """Return the id of the current request or task; ``-`` outside one."""
    return _current.get()


@contextmanager
def using_id(request_id: str) -> Iterator[None]:
    """Use ``request_id`` in every log line of the block."""
    token = _current.set(request_id)
    try:
        yield
    finally:
        _current.reset(token)


class AddRequestId(logging.Filter):
    """Set ``request_id`` on each log record. Django logs a refusal after the middleware has ended, with its request."""

    def filter(self, record: logging.LogRecord) -> bool:
        request = getattr(record, "request", None)
        named = getattr(request, "META", {}).get(ENVIRON) if request is not None else None
        record.request_id = named or _current.get()
        return True
