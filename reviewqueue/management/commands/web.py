"""`manage.py web`: serve pages and API with granian until stopped.

After SIGTERM, in this order: for `SHUTDOWN_DELAY` seconds `/readyz` is not ready, long polls end, and every response closes
its connection; new connections are ignored, so that a proxy sends nothing more; granian closes its sockets, finishes the
requests under way, and exits.
"""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError
from granian.constants import HTTPModes, Interfaces, Loops, TaskImpl
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server import Server

from ledger.pause import pause
from reviewqueue.management.ports import refuse_busy_port
from reviewqueue.operations import processes, rollback_detection
from reviewqueue.operations.file_permissions import restrict_old_files
from reviewqueue.operations.installation import PROGRAM
from reviewqueue.serving import http_metrics
from reviewqueue.serving.shutdown import IGNORE_NEW_CONNECTIONS, SECONDS_FOR_OPENING_CONNECTIONS, SHUTDOWN_MARKER

BACKLOG = 1024
WORKERS_GRACE = 20  # seconds for requests under way
GRACE = WORKERS_GRACE + 5
#: Connections that a process accepts at once, idle and slow ones included; more wait in the backlog.
MAX_CONNECTIONS = 4096
#: Granian's own lines go to the log of the product, in its format.
_LOG_CONFIG = {
    "formatters": {},
    "handlers": {},
    "loggers": {name: {"handlers": [], "propagate": True} for name in ("_granian", "granian.access")},
}


class Command(BaseCommand):
    help = "Serve the pages and the API on HOST:PORT (settings: HOST, PORT, WEB_PROCESSES, WEB_THREADS)."

    def handle(self, *args: Any, **options: Any) -> None:
        refuse_busy_port(settings.HOST, settings.PORT, f"Try another: PORT=8080 {PROGRAM} web")
        restrict_old_files()
        self._refuse_rolled_back_database()
        self.stdout.write(f"Serving {settings.BASE_URL} (listening on {settings.HOST}:{settings.PORT})")
        self.stdout.flush()
        _allow_many_connections()
        processes.become("web", pool_size=settings.WEB_THREADS)
        for name in ("reviewqueue.wsgi", "reviewqueue.urls"):  # before the fork, so that the processes share them
            importlib.import_module(name)
        http_metrics.counters()
        sys.exit(_serve_until_stopped())

    def _refuse_rolled_back_database(self) -> None:
        """Serve no runs of the past. `/readyz` reports a database that is down or has no tables."""
        try:
            rollback = rollback_detection.find_rollback()
        except DatabaseError:
            return
        if rollback is not None:
            raise CommandError(f"web did not start. {rollback.message}")


def _serve_until_stopped() -> int:
    """Run granian. After SIGTERM `/readyz` is not ready for `SHUTDOWN_DELAY` seconds; then granian stops.

    Returns its exit status; 0 after a stop.
    """
    stop_asked = processes.StopAsked()
    with tempfile.TemporaryDirectory(prefix="reviewqueue-web-", ignore_cleanup_errors=True) as folder:
        marker = Path(folder) / "stopping"
        server = processes.fork(_run_granian, title="rq-granian", **{SHUTDOWN_MARKER: str(marker)})
        exited = False
        try:
            while server.poll() is None and not stop_asked.wait(0.5):
                pass
            if server.poll() is None:
                marker.parent.mkdir(
                    mode=0o700, parents=True, exist_ok=True
                )  # a cleaner of old files can have removed it
                marker.touch()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    server.wait(settings.SHUTDOWN_DELAY)
        finally:
            exited = processes.stop(server, grace=GRACE)
        return 0 if exited and stop_asked else server.returncode or 1


class _Granian(Server):
    """granian's main process. Its workers are forked, share the imported application, and listen on a socket each."""

    def shutdown(self, exit_code: int = 0) -> None:
        if settings.SHUTDOWN_DELAY:  # else no proxy waits for it
            for pid in filter(None, (worker.pid for worker in multiprocessing.active_children())):
                with contextlib.suppress(ProcessLookupError):  # it has just ended
                    os.kill(pid, IGNORE_NEW_CONNECTIONS)
            pause(SECONDS_FOR_OPENING_CONNECTIONS)
        super().shutdown(exit_code)


def _run_granian() -> None:
    _Granian(
        "reviewqueue.asgi:application",
        address=settings.HOST,
        port=settings.PORT,
        interface=Interfaces.ASGI,
        workers=settings.WEB_PROCESSES,
        loop=Loops.asyncio,
        task_impl=TaskImpl.asyncio,  # time limits need tasks that can be cancelled
        http=HTTPModes.http1,
        websockets=False,
        backlog=BACKLOG,
        backpressure=MAX_CONNECTIONS,
        http1_settings=HTTP1Settings(header_read_timeout=1000 * settings.REQUEST_HEADER_SECONDS),
        log_level=LogLevels.error,
        log_dictconfig=_LOG_CONFIG,
        # Restart processes that die; kill those that do not stop.
        respawn_failed_workers=True,
        workers_kill_timeout=WORKERS_GRACE,
    ).serve()


def _allow_many_connections() -> None:
    """Raise this process's limit of open files as far as the hard limit allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_CONNECTIONS + 1024 if hard == resource.RLIM_INFINITY else min(MAX_CONNECTIONS + 1024, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
