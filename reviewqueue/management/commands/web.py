"""`manage.py web`: serve pages and API with granian until stopped."""

from __future__ import annotations

import os
import resource
import sys
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, connection

from reviewqueue.management.ports import refuse_busy_port
from reviewqueue.operations import rollback_detection
from reviewqueue.operations.file_permissions import restrict_old_files
from reviewqueue.operations.installation import PROGRAM

BACKLOG = 1024
#: Connections that a process accepts at once, idle and slow ones included; more wait in the backlog.
MAX_CONNECTIONS = 4096


class Command(BaseCommand):
    help = "Serve the pages and the API on HOST:PORT (settings: HOST, PORT, WEB_PROCESSES, WEB_THREADS)."

    def handle(self, *args: Any, **options: Any) -> None:
        refuse_busy_port(settings.HOST, settings.PORT, f"Try another: PORT=8080 {PROGRAM} web")
        restrict_old_files()
        self._refuse_rolled_back_database()
        self.stdout.write(f"Serving {settings.BASE_URL} (listening on {settings.HOST}:{settings.PORT})")
        self.stdout.flush()
        os.environ["REVIEWQUEUE_PROCESS"] = "web"
        os.chdir(settings.ROOT)
        _allow_many_connections()
        command = [
            *(sys.executable, "-m", "granian", "--interface", "asgi", "--no-ws", "--http", "1"),
            *("--loop", "asyncio", "--task-impl", "asyncio"),  # time limits need tasks that can be cancelled
            *("--host", settings.HOST, "--port", str(settings.PORT)),
            *("--workers", str(settings.WEB_PROCESSES), "--backpressure", str(MAX_CONNECTIONS)),
            *("--http1-header-read-timeout", str(1000 * settings.REQUEST_HEADER_SECONDS)),
            # Restart processes that die; kill those that do not stop, with their long polls.
            *("--respawn-failed-workers", "--workers-kill-timeout", "10", "--backlog", str(BACKLOG)),
            *("--log-level", "error", "reviewqueue.asgi:application"),
        ]
        connection.close()
        os.execv(sys.executable, command)  # noqa: S606  the same Python, no shell

    def _refuse_rolled_back_database(self) -> None:
        """Serve no runs of the past. `/readyz` reports a database that is down or has no tables."""
        try:
            rollback = rollback_detection.find_rollback()
        except DatabaseError:
            return
        if rollback is not None:
            raise CommandError(f"web did not start. {rollback.message}")


def _allow_many_connections() -> None:
    """Raise this process's limit of open files as far as the hard limit allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_CONNECTIONS + 1024 if hard == resource.RLIM_INFINITY else min(MAX_CONNECTIONS + 1024, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
