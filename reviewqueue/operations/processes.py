"""Child processes in sessions of their own: start, stop with SIGTERM, and after a grace period kill the group.

Ctrl-C reaches the parent only. The parent signals each child's main process, because django-q2 hangs when its whole group
gets the signal.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
from types import FrameType

from django.conf import settings

from reviewqueue.operations.installation import ARGUMENTS


class StopAsked:
    """True after SIGTERM or SIGINT. Installs its signal handlers when created."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        for sign in (signal.SIGTERM, signal.SIGINT):
            signal.signal(sign, self._note)

    def _note(self, sign: int, frame: FrameType | None) -> None:
        self._asked.set()

    def __bool__(self) -> bool:
        return self._asked.is_set()

    def wait(self, seconds: float) -> bool:
        return self._asked.wait(seconds)


def start(*command: str, **environment: str) -> subprocess.Popen[bytes]:
    """Start the command of the product in a session of its own."""
    return start_python(*ARGUMENTS, *command, **environment)


def start_python(*arguments: str, **environment: str) -> subprocess.Popen[bytes]:
    """Start this Python with these arguments in a session of its own."""
    return subprocess.Popen(
        [sys.executable, *arguments],
        env=os.environ | environment,
        cwd=settings.ROOT,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=stop_with_parent,
    )


def stop(child: subprocess.Popen[bytes], *, grace: float) -> bool:
    """Send SIGTERM; after `grace` seconds kill the rest of the group. Returns whether the child exited by itself."""
    if child.poll() is None:
        child.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(grace)
    exited = child.poll() is not None
    kill_group(child)
    return exited


def kill_group(child: subprocess.Popen[bytes]) -> None:
    """Kill the group even if the child has exited: its own children can outlive it and would continue to execute tasks."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def stop_with_parent() -> None:
    """On Linux the kernel stops this process if its parent is killed."""
    if sys.platform == "linux":
        set_death_signal = 1
        ctypes.CDLL(None).prctl(set_death_signal, signal.SIGTERM)
