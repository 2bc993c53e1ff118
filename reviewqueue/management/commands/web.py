"""`manage.py web`: pages and API, served by granian on PORT until stopped."""

from __future__ import annotations

import os
import sys
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, connection

from reviewqueue import high_water
from reviewqueue.file_permissions import narrow_old_files
from reviewqueue.management.ports import refuse_busy_port

BACKLOG = 1024


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
        command = [
            *(sys.executable, "-m", "granian", "--interface", "wsgi", "--no-ws"),
            *("--host", settings.HOST, "--port", str(settings.PORT)),
            *("--workers", str(settings.WEB_PROCESSES), "--blocking-threads", str(settings.WEB_THREADS)),
            # One that dies comes back; one that will not stop is killed, long polls and all.
            *("--respawn-failed-workers", "--workers-kill-timeout", "10", "--backlog", str(BACKLOG)),
            # Its one warning is that our threads are many: most of them wait in a long poll.
            *("--log-level", "error", "reviewqueue.wsgi:application"),
        ]
        connection.close()
        os.execv(sys.executable, command)  # noqa: S606  the same Python, no shell

    def _refuse_a_restored_backup(self) -> None:
        """Nobody may claim what is past. Of a database that is away, or has no tables, `/readyz` tells."""
        try:
            gone_back = high_water.look()
        except DatabaseError:
            return
        if gone_back is not None:
            raise CommandError(f"Not served: {gone_back.words}")
