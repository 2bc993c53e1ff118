"""Log filter of refused requests: one line each. Only an unexpected error, a 500, has its traceback."""

from __future__ import annotations

import logging

_SERVER_ERROR = 500


def drop_refusal_traceback(record: logging.LogRecord) -> bool:
    """Remove the traceback of a refused request (400, 403, 404): its code has no fault. Keeps every record."""
    if getattr(record, "status_code", _SERVER_ERROR) < _SERVER_ERROR:
        record.exc_info = None
    return True
