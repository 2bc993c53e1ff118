"""A pause of the current thread."""

from __future__ import annotations

import threading


def pause(seconds: float) -> None:
    """Wait. Unlike ``time.sleep``, it also works in a process whose clock libfaketime changes."""
    threading.Event().wait(seconds)
