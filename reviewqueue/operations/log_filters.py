"""Log filters of requests: one line for a refused one, and for each one while the database is away.

Only an unexpected error has its traceback. The route stands for the path of a request, which can contain a secret. A path
without a route is cut and escaped: the client chose it.
"""

from __future__ import annotations

import logging

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest
from django.urls import Resolver404, resolve

_SERVER_ERROR = 500
MAX_PATH_LENGTH = 200
#: A link below it can contain a token, also a link that was copied with a character too many.
_ACCOUNT = "/account/"


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
    """Put the route in place of the path in a record of `django.request`; cut its texts and escape their line ends.

    Keeps every record.
    """
    args, request = _args_of(record), getattr(record, "request", None)
    if isinstance(request, HttpRequest):
        paths = {request.path, request.path.encode("unicode_escape").decode()}  # Django escapes it
        args = tuple(public_path(request) if it in paths else it for it in args)
    record.args = tuple(_shorten(it) if isinstance(it, str) else it for it in args)
    return True


def public_path(request: HttpRequest) -> str:
    """Return the route of a request, which no middleware need have resolved; its path if it has none."""
    path = request.path_info
    for tried in (path, f"{path}/"):  # a missing slash is logged before the redirect that adds it
        try:
            return f"/{resolve(tried, getattr(request, 'urlconf', None)).route}"
        except Resolver404:
            continue
    return f"{_ACCOUNT}..." if path.startswith(_ACCOUNT) else path


def _args_of(record: logging.LogRecord) -> tuple[object, ...]:
    return record.args if isinstance(record.args, tuple) else (record.args,) if record.args else ()


def _shorten(text: str) -> str:
    shown = text.encode("unicode_escape").decode() if not text.isprintable() else text
    return shown if len(shown) <= MAX_PATH_LENGTH else f"{shown[:MAX_PATH_LENGTH]}... ({len(text)} characters)"


def drop_repeated_failure(record: logging.LogRecord) -> bool:
    """Drop the record of a failed task that ``tasks.entry_point`` has logged with its ids: its traceback passed there."""
    text = str(record.msg)
    return not (text.startswith("Failed '") and "reviewqueue/tasks.py" in text)
