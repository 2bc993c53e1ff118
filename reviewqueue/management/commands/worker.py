"""`manage.py worker`: tasks and sweeps, by a django-q2 cluster under our supervisor, until stopped."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from reviewqueue.operations.file_permissions import narrow_old_files
from reviewqueue.operations.processes import StopAsked
from reviewqueue.operations.supervisor import Supervisor


class Command(BaseCommand):
    help = "Run tasks and sweeps; start the cluster again when it dies or falls silent."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--beat-every", type=float, default=Supervisor.beat_every, help="seconds (%(default)s)")
        parser.add_argument("--old-after", type=float, default=Supervisor.old_after, help="seconds (%(default)s)")
        parser.add_argument("--grace", type=float, default=Supervisor.grace, help="seconds (%(default)s)")

    def handle(self, *args: Any, **options: Any) -> None:
        narrow_old_files()
        seconds = {name: options[name] for name in ("beat_every", "old_after", "grace")}
        Supervisor(stop_asked=StopAsked(), **seconds).run()
