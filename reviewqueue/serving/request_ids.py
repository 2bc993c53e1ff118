"""Request ids: one for each request, in its response, in its problem and in every log line written while it runs.

A client or proxy may name its request with `X-Request-ID`; a name that is long or has unusual characters is replaced, so
that it cannot forge log lines. The id helps to find things. It proves nothing, and it need not be unique.
"""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

HEADER = "X-Request-ID"
#: Where a request's `META` keeps it.
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
    """Return the id of the request or task of this context; ``-`` outside of one."""
    return _current.get()


@contextmanager
def using_id(request_id: str) -> Iterator[None]:
    """Write ``request_id`` into every log line of the block."""
    token = _current.set(request_id)
    try:
        yield
    finally:
        _current.reset(token)


class AddRequestId(logging.Filter):
    """Give each log record the member ``request_id``. Django logs a refusal after the middlewares, with its request."""

    def filter(self, record: logging.LogRecord) -> bool:
        request = getattr(record, "request", None)
        named = getattr(request, "META", {}).get(ENVIRON) if request is not None else None
        record.request_id = named or _current.get()
        return True
