"""Log lines as JSON objects, for programs that collect logs (`LOG_FORMAT=json`)."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

from django.conf import settings

#: Loggers of the product. Members that they add to a record (`extra`) are in its line; those of libraries are not.
_OWN = ("reviewqueue", "runs", "ledger")
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "request_id", "ids"}


class JsonFormatter(logging.Formatter):
    """One line for each record. A traceback is the member ``exception``, with its line ends escaped."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as a JSON object in ASCII."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "process": getattr(settings, "PROCESS", ""),
            "pid": record.process,
        }
        line |= getattr(record, "ids", {})
        if record.name.partition(".")[0] in _OWN:
            line |= {name: value for name, value in _added_members(record).items() if name not in line}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            line["stack"] = self.formatStack(record.stack_info)
        return json.dumps(line)


def _added_members(record: logging.LogRecord) -> dict[str, str | int | float | None]:
    return {
        name: value
        for name, value in vars(record).items()
        if name not in _STANDARD and isinstance(value, str | int | float | None)
    }
