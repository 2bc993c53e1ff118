"""What the log tells of a refused request: one line. Only what nobody foresaw, a 500, brings its traceback.

Named by ``settings.LOGGING``. Nothing is left out of the log here: each record stays, with its level and its sentence.
"""

from __future__ import annotations

import logging

FIRST_OF_OURS = 500  # the status from which on the fault is ours


def without_traceback_of_refusals(record: logging.LogRecord) -> bool:
    """Take the traceback from a request that was refused (400, 403, 404): nothing in our code is wrong there."""
    if getattr(record, "status_code", FIRST_OF_OURS) < FIRST_OF_OURS:
        record.exc_info = None
    return True
