"""Everything that the product puts out or stores, as text: for tests that look for a secret in it."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from typing import Any

from django.apps import apps
from django.contrib.sessions.models import Session
from django.core import mail
from django.utils.log import AdminEmailHandler
from django_q.models import OrmQ

from ledger.log_context import log_context
from reviewqueue.serving.access_log import record_request
from reviewqueue.serving.json_log import JsonFormatter
from reviewqueue.serving.request_ids import CONTEXT, AddRequestId


def stored() -> str:
    """Return every value of every row, with sessions, tasks and their results as they are read back."""
    return "\n".join(_values())


def _values() -> Iterator[str]:
    for model in apps.get_models():
        if not model._meta.managed or model._meta.proxy:
            continue
        names = [field.attname for field in model._meta.concrete_fields]
        for row in model._default_manager.all():
            yield " ".join(f"{name}={getattr(row, name)!r}" for name in names)
            if isinstance(row, Session):
                yield repr(row.get_decoded())
            if isinstance(row, OrmQ):
                yield repr(row.task)


class Log(logging.Handler):
    """Keeps each record as a log file would have it, as text and as JSON, and as an error report would tell it."""

    def __init__(self) -> None:
        super().__init__(level=logging.DEBUG)
        self.lines: list[str] = []
        self.reports = AdminEmailHandler(include_html=True)
        self.reports.setFormatter(logging.Formatter())
        self.addFilter(AddRequestId())

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(JsonFormatter().format(record))
        self.lines.append(logging.Formatter("%(name)s %(message)s %(args)s").format(record))
        if record.levelno >= logging.ERROR:
            self.reports.emit(record)

    def text(self) -> str:
        told = [f"{message.subject} {message.body} {getattr(message, 'alternatives', '')}" for message in mail.outbox]
        return "\n".join(self.lines + told)

    def forget(self) -> None:
        self.lines.clear()
        mail.outbox.clear()


def write_access_line(response: Any) -> None:
    """Write the line of the access log that `web` writes for this response."""
    environ = response.wsgi_request.META
    status = response.status_code
    context = environ[CONTEXT]
    with log_context(**context.ids):
        record_request(environ, context, client="192.0.2.1", status=status, size=3, seconds=0.0123)


def answer_text(response: Any) -> str:
    """Return a whole answer: status, headers, cookies but for the ones that the browser itself just sent, body."""
    content = b"".join(response.streaming_content) if response.streaming else response.content
    headers = "\n".join(f"{name}: {value}" for name, value in response.headers.items())
    return f"{response.status_code}\n{headers}\n{response.cookies.output()}\n{content.decode(errors='replace')}"


def traceback_text(error: BaseException) -> str:
    """Return an exception as a log file would have it."""
    return "".join(traceback.format_exception(error))
