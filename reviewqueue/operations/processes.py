"""Child processes and their ends: started apart, asked to stop by a signal to the one, killed as a group after a grace.

`manage.py up` and the worker's supervisor use it. A child has its own session: Ctrl-C reaches us alone, and we pass it on
to the main process only, since django-q2 hangs when its whole group gets it.
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

MANAGE = str(settings.ROOT / "manage.py")


class StopAsked:
    """Set by SIGTERM or SIGINT, from when it is made."""

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
    """Start `manage.py COMMAND` in a session of its own."""
    return start_python(MANAGE, *command, **environment)


def start_python(*arguments: str, **environment: str) -> subprocess.Popen[bytes]:
    """Start our Python with these arguments in a session of its own."""
    return subprocess.Popen(
        [sys.executable, *arguments],
        env=os.environ | environment,
        cwd=settings.ROOT,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=_stop_with_parent,
    )


def stop(child: subprocess.Popen[bytes], *, grace: float) -> bool:
    """Ask the child to stop; after `grace` seconds kill what is left of its group. Returns whether it went by itself."""
    if child.poll() is None:
        child.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(grace)
    by_itself = child.poll() is not None
    kill_group(child)
    return by_itself


def kill_group(child: subprocess.Popen[bytes]) -> None:
    """Also when the child is gone: its own children may have outlived it and would go on executing tasks."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _stop_with_parent() -> None:
    """Linux: the kernel asks the child to stop should we be killed before we can."""
    if sys.platform == "linux":
        set_death_signal = 1
        ctypes.CDLL(None).prctl(set_death_signal, signal.SIGTERM)
