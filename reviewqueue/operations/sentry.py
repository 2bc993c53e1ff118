"""Error reports to Sentry (`SENTRY_DSN`): the log records of errors, without what a person entered or a program sent.

Sentry's integrations are off: they change libraries, and collect requests, breadcrumbs and local variables. Each process
has a client of its own, because a client has threads, which a fork would lose. Needs the extra `reviewqueue[sentry]`.
"""

from __future__ import annotations

import logging
import os
from multiprocessing.util import Finalize
from typing import Any

import sentry_sdk
from sentry_sdk.transport import Transport
from sentry_sdk.utils import event_from_exception

#: Members of an event, of an exception in it and of a stack frame that are sent. Everything else is removed.
_MEMBERS = {
    *(
        "event_id",
        "timestamp",
        "level",
        "platform",
        "logger",
        "logentry",
        "exception",
        "tags",
        "release",
        "environment",
    ),
    *("sdk", "server_name"),
}
_OF_EXCEPTION = {"type", "value", "module", "mechanism", "stacktrace"}
_OF_FRAME = {
    *("filename", "abs_path", "function", "module", "lineno", "in_app", "context_line", "pre_context", "post_context"),
}


_SERVER_ERROR = 500
_FLUSH_SECONDS = 2.0


class SentryHandler(logging.Handler):
    """Sends each record as an event. The message is the text of the code, without its values, such as a path."""

    def __init__(self, *, dsn: str, transport: type[Transport] | None = None) -> None:
        super().__init__()
        self._dsn, self._transport = dsn, transport
        self._client: sentry_sdk.Client | None = None
        self._process = -1

    def emit(self, record: logging.LogRecord) -> None:
        """Send the record. Sentry's own records are left out, and refused requests, whose message can be a stranger's text.

        An error of its library must not reach the caller.
        """
        if record.name.startswith("sentry_sdk") or getattr(record, "status_code", _SERVER_ERROR) < _SERVER_ERROR:
            return
        try:
            self._send(record)
        except Exception:  # noqa: BLE001  as the handlers of the standard library do
            self.handleError(record)

    def _send(self, record: logging.LogRecord) -> None:
        client = self._client_of_process()
        event: dict[str, Any] = {}
        if record.exc_info and record.exc_info[0] is not None:
            found, _ = event_from_exception(record.exc_info, client_options=client.options)
            event = dict(found)
        event |= {
            "level": record.levelname.lower(),
            "logger": record.name,
            "logentry": {"message": str(record.msg)},
            "tags": dict(getattr(record, "ids", {})),
        }
        client.capture_event(event)  # type: ignore[arg-type]  # a dictionary, as their own examples have it

    def _client_of_process(self) -> sentry_sdk.Client:
        if self._client is None or self._process != os.getpid():
            self._client = sentry_sdk.Client(
                dsn=self._dsn,
                before_send=scrub_event,
                transport=self._transport,
                default_integrations=False,
                include_local_variables=False,
                max_breadcrumbs=0,
            )
            self._process = os.getpid()
            Finalize(None, self.flush, exitpriority=1)  # in a task's process nothing else runs at its end
        return self._client

    def flush(self) -> None:
        """Send what waits in this process, before it ends without its exit handlers."""
        if self._client is not None and self._process == os.getpid():
            self._client.flush(timeout=_FLUSH_SECONDS)


def scrub_event(event: Any, hint: dict[str, Any] | None = None) -> Any:
    """Return the event with the members of an allow-list only (Sentry's `before_send`)."""
    kept = {name: value for name, value in event.items() if name in _MEMBERS}
    if "logentry" in kept:
        kept["logentry"] = {"message": kept["logentry"].get("message", "")}
    for exception in (kept.get("exception") or {}).get("values", []):
        _keep(exception, _OF_EXCEPTION)
        for frame in (exception.get("stacktrace") or {}).get("frames", []):
            _keep(frame, _OF_FRAME)
    return kept


def _keep(members: dict[str, Any], names: set[str]) -> None:
    for name in set(members) - names:
        del members[name]
