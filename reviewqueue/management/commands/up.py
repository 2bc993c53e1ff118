"""`manage.py up`: migrate, then run web and worker until stopped. Everything for one host in one command."""

from __future__ import annotations

import importlib
import signal
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError

from reviewqueue.management.commands import web
from reviewqueue.management.ports import refuse_busy_port
from reviewqueue.operations import processes
from reviewqueue.operations.installation import PROGRAM
from reviewqueue.operations.supervisor import Supervisor

GRACE = max(Supervisor.grace, settings.SHUTDOWN_DELAY + web.GRACE) + 5  # the longer grace of the two, and a margin


class Command(BaseCommand):
    help = "Migrate the database, then run web and worker until stopped (SIGTERM or Ctrl-C)."

    def handle(self, *args: Any, **options: Any) -> None:
        refuse_busy_port(settings.HOST, settings.PORT, f"Try another: PORT=8080 {PROGRAM} up")
        self.stdout.write("Migrating the database ...")
        try:
            call_command("migrate", verbosity=0, interactive=False)
        except OperationalError as fault:
            raise CommandError(
                f"The database cannot be used ({settings.DATABASES['default']['NAME']}): {fault}"
            ) from None
        stop_asked = processes.StopAsked()
        importlib.import_module("reviewqueue.urls")  # before the fork, so that all processes share it
        children = {
            "web": processes.fork(lambda: call_command("web"), title="rq-web"),
            "worker": processes.fork(lambda: call_command("worker"), title="rq-worker"),
        }
        try:
            while not stop_asked.wait(0.5):
                for name, child in children.items():
                    if child.poll() is not None:
                        raise CommandError(
                            f"The {name} process exited with status {child.returncode}. Stopping all processes."
                        )
        finally:
            self._stop(children)

    def _stop(self, children: dict[str, processes.ForkedChild]) -> None:
        self.stdout.write("Stopping ...")
        for child in children.values():
            if child.poll() is None:
                child.send_signal(signal.SIGTERM)  # all at once, then wait for each
        for child in children.values():
            processes.stop(child, grace=GRACE)
