"""`manage.py web`: pages and API, served by granian on PORT until stopped."""

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
from reviewqueue.operations.file_permissions import narrow_old_files

BACKLOG = 1024
#: Connections a process accepts at once; more wait in the backlog. Idle and slow ones count, so they are many.
MOST_CONNECTIONS = 4096


class Command(BaseCommand):
    help = "Serve the pages and the API on HOST:PORT (settings: HOST, PORT, WEB_PROCESSES, WEB_THREADS)."

    def handle(self, *args: Any, **options: Any) -> None:
        refuse_busy_port(settings.HOST, settings.PORT, "PORT=8080 python3 manage.py web")
        narrow_old_files()
        self._refuse_a_restored_backup()
        self.stdout.write(f"Serving {settings.BASE_URL} (listening on {settings.HOST}:{settings.PORT})")
        self.stdout.flush()
        os.environ["REVIEWQUEUE_PROCESS"] = "web"
        os.chdir(settings.ROOT)
        _allow_many_connections()
        command = [
            *(sys.executable, "-m", "granian", "--interface", "asgi", "--no-ws", "--http", "1"),
            *("--loop", "asyncio", "--task-impl", "asyncio"),  # time limits need tasks that can be cancelled
            *("--host", settings.HOST, "--port", str(settings.PORT)),
            *("--workers", str(settings.WEB_PROCESSES), "--backpressure", str(MOST_CONNECTIONS)),
            *("--http1-header-read-timeout", str(1000 * settings.REQUEST_HEADER_SECONDS)),
            # One that dies comes back; one that will not stop is killed, long polls and all.
            *("--respawn-failed-workers", "--workers-kill-timeout", "10", "--backlog", str(BACKLOG)),
            *("--log-level", "error", "reviewqueue.asgi:application"),
        ]
        connection.close()
        os.execv(sys.executable, command)  # noqa: S606  the same Python, no shell

    def _refuse_a_restored_backup(self) -> None:
        """Nobody may claim what is past. Of a database that is away, or has no tables, `/readyz` tells."""
        try:
            gone_back = rollback_detection.look()
        except DatabaseError:
            return
        if gone_back is not None:
            raise CommandError(f"Not served: {gone_back.words}")


def _allow_many_connections() -> None:
    """Raise this process's own limit of open files as far as it may, for connections and files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_CONNECTIONS + 1024 if hard == resource.RLIM_INFINITY else min(MOST_CONNECTIONS + 1024, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
