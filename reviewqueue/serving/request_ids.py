"""Request ids: one per request, in its response, in its problem, and in every log line that it writes.

A client or proxy can set `X-Request-ID`. An id that is too long or has other characters is replaced, so that it cannot forge
log lines. The id is only for finding things: it proves nothing and need not be unique. Log lines have further ids
(``ledger.log_context``).
"""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from ledger import log_context
from ledger.log_context import LogContext

HEADER = "X-Request-ID"
#: Its key in the request's `META`.
ENVIRON = "reviewqueue.request_id"
#: The key of the request's log context in its `META`.
CONTEXT = "reviewqueue.log_context"
NONE = "-"

_ACCEPTED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:=+/-]{0,63}")


def choose_request_id(sent: str) -> str:
    """Return ``sent`` if it has at most 64 letters, digits and ``. _ : = + / -``, else a new id."""
    return sent if _ACCEPTED.fullmatch(sent) else new_id("req")


def new_id(prefix: str) -> str:
    return f"{prefix}_{secrets.token_hex(10)}"


def current_request_id() -> str:
    """Return the id of the current request or task; ``-`` outside one."""
    return log_context.current().ids.get("request_id", NONE)


@contextmanager
def using_id(request_id: str) -> Iterator[LogContext]:
    """Use ``request_id`` in every log line of the block. Inside a block with the same id, its other ids stay."""
    present = log_context.current()
    if present.ids.get("request_id") == request_id:
        yield present
    else:
        with log_context.log_context(request_id=request_id) as begun:
            yield begun


class AddRequestId(logging.Filter):
    """Set ``request_id`` and ``ids`` on each log record.

    Django logs a refusal after the middleware has ended, with its request.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        request = getattr(record, "request", None)
        named = getattr(request, "META", {}).get(CONTEXT) if request is not None else None
        ids = (named or log_context.current()).ids
        record.ids, record.request_id = ids, ids.get("request_id", NONE)
        return True
