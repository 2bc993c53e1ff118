"""Log filters of requests: one line for a refused one, and for each one while the database is away.

Only an unexpected error has its traceback. The path of a request is cut and escaped: the client chose it.
"""

from __future__ import annotations

import logging

from django.db import InterfaceError, OperationalError

_SERVER_ERROR = 500
MAX_PATH_LENGTH = 200


def drop_refusal_traceback(record: logging.LogRecord) -> bool:
    """Remove the traceback of a refused request (400, 403, 404): its code has no fault. Keeps every record."""
    if getattr(record, "status_code", _SERVER_ERROR) < _SERVER_ERROR:
        record.exc_info = None
    elif record.exc_info and isinstance(record.exc_info[1], OperationalError | InterfaceError):
        error = str(record.exc_info[1]).partition("\n")[0]
        record.msg, record.args = f"{record.msg} (the database does not answer: %s)", (*_args_of(record), error)
        record.exc_info = None
    return True


def shorten_path(record: logging.LogRecord) -> bool:
    """Cut the texts of a record of `django.request` and escape their line ends. Keeps every record."""
    record.args = tuple(_shorten(it) if isinstance(it, str) else it for it in _args_of(record))
    return True


def _args_of(record: logging.LogRecord) -> tuple[object, ...]:
    return record.args if isinstance(record.args, tuple) else (record.args,) if record.args else ()


def _shorten(text: str) -> str:
    shown = text.encode("unicode_escape").decode() if not text.isprintable() else text
    return shown if len(shown) <= MAX_PATH_LENGTH else f"{shown[:MAX_PATH_LENGTH]}... ({len(text)} characters)"
