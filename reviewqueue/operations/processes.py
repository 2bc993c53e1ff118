"""Child processes in sessions of their own: start, stop with SIGTERM, and after a grace period kill the group.

Ctrl-C reaches the parent only. The parent signals each child's main process, because django-q2 hangs when its whole group
gets the signal.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Protocol

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import CommandError
from django.db import connections

from ledger.pause import pause
from reviewqueue.operations.environment import set_process
from reviewqueue.operations.installation import ARGUMENTS, WORKING_FOLDER

log = logging.getLogger(__name__)

_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopAsked:
    """True after SIGTERM or SIGINT. Installs its signal handlers when created."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        for sign in _STOP_SIGNALS:
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
        cwd=WORKING_FOLDER,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=stop_with_parent,
    )


class Child(Protocol):
    """A child process, as ``subprocess.Popen`` has it."""

    pid: int
    returncode: int | None

    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, sig: int) -> None: ...


@dataclass
class ForkedChild:
    """A child that was forked from this process and shares its memory until one of them writes to it."""

    pid: int
    returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit status, or ``None`` while the child runs."""
        if self.returncode is None:
            found, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if found else None
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the child. Raises ``subprocess.TimeoutExpired``."""
        ends_at = None if timeout is None else time.monotonic() + timeout
        while (status := self.poll()) is None:
            if ends_at is not None and time.monotonic() >= ends_at:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
            pause(0.05)
        return status

    def send_signal(self, sig: int) -> None:
        """Send a signal, unless the child has ended."""
        if self.poll() is None:
            os.kill(self.pid, sig)


def fork(run: Callable[[], object], *, title: str, **environment: str) -> ForkedChild:
    """Run a function in a child with a session of its own. They share memory until one of them writes to it.

    ``title``: what `ps` and `top` show as the command, up to 15 characters. The connections of the caller are closed,
    because a connection belongs to one process. Raises ``RuntimeError`` if the caller has other threads: the child would
    have their locks, but not the threads.
    """
    _close_connections()
    _refuse_other_threads()
    if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:  # inherited; the kernel would discard the exit status
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    gc.collect()
    gc.freeze()  # else the first collection of each process would copy the shared memory
    _flush_output()
    began, begin = os.pipe()
    # A stop signal waits until the child has its own handlers; else the copied ones of its parent would discard it.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)
    parent, pid = os.getpid(), -1
    try:
        pid = os.fork()
    finally:
        if pid:  # in the parent, also without a child
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    if pid:
        os.close(begin)
        os.read(began, 1)  # from here on its group can be killed
        os.close(began)
        return ForkedChild(pid)
    status = 1
    try:
        os.setsid()
        os.close(begin)
        os.close(began)
        _set_title(title)
        stop_with_parent()
        if os.getppid() == parent:  # else it ended before this process asked for the signal
            for sign in _STOP_SIGNALS:
                signal.signal(sign, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            os.environ.update(environment)
            run()
            status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            _report(end.code)
    except (CommandError, ImproperlyConfigured) as problem:  # as `manage.py` reports them
        status = getattr(problem, "returncode", 1)
        _report(str(problem))
    except BaseException:
        log.exception("%s failed", title)
    finally:
        try:
            _flush_output()
        finally:
            os._exit(status)


def become(process: str, *, pool_size: int = 0) -> None:
    """Give this process the settings of its kind, before it opens a connection. `up` becomes web and worker by forks, after
    the settings were read.
    """
    connections.close_all()
    settings.PROCESS = process
    set_process(connections["default"].settings_dict, process, pool_size=pool_size)


def _close_connections() -> None:
    connections.close_all()
    for connection in connections.all(initialized_only=True):
        close_pool = getattr(connection, "close_pool", None)
        if close_pool is not None:  # of PostgreSQL; else the child would get a pool without its threads
            close_pool()


def _refuse_other_threads() -> None:
    others = [thread.name for thread in threading.enumerate() if thread is not threading.current_thread()]
    if others:
        raise RuntimeError(f"A process with other threads cannot fork: {', '.join(others)}")


def _report(sentence: str) -> None:
    """Write why a child ends: the sentence alone, or a record where the log is JSON."""
    if settings.LOG_FORMAT == "json":
        log.error("%s", sentence)
    else:
        sys.stderr.write(f"{sentence}\n")


def _flush_output() -> None:
    for it in (sys.stdout, sys.stderr, *logging.getLogger().handlers):  # a handler of error reports sends them later
        with contextlib.suppress(Exception):  # a pipe without a reader, or a full disk
            it.flush()


def _set_title(title: str) -> None:
    if sys.platform == "linux":
        set_name = 15
        ctypes.CDLL(None).prctl(set_name, title.encode(), 0, 0, 0)


def stop(child: Child, *, grace: float) -> bool:
    """Send SIGTERM; after `grace` seconds kill the rest of the group. Returns whether the child exited by itself."""
    if child.poll() is None:
        child.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(grace)
    exited = child.poll() is not None
    kill_group(child)
    return exited


def kill_group(child: Child) -> None:
    """Kill the group even if the child has exited: its own children can outlive it and would continue to execute tasks."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def stop_with_parent() -> None:
    """On Linux the kernel stops this process if its parent is killed."""
    if sys.platform == "linux":
        set_death_signal = 1
        ctypes.CDLL(None).prctl(set_death_signal, signal.SIGTERM)
