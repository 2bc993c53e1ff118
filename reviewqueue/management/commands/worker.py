"""`manage.py worker`: run tasks and sweeps in a supervised django-q2 cluster until stopped."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from reviewqueue.operations import processes
from reviewqueue.operations.file_permissions import restrict_old_files
from reviewqueue.operations.supervisor import Supervisor


class Command(BaseCommand):
    help = "Run tasks and sweeps. Restarts the cluster when it dies or sends no heartbeat."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--beat-every", type=float, default=Supervisor.beat_every, help="seconds between heartbeats (%(default)s)"
        )
        parser.add_argument(
            "--old-after",
            type=float,
            default=Supervisor.old_after,
            help="seconds without heartbeat until a restart (%(default)s)",
        )
        parser.add_argument(
            "--grace", type=float, default=Supervisor.grace, help="seconds to stop before a kill (%(default)s)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        restrict_old_files()
        processes.become("worker", pool_size=0)
        seconds = {name: options[name] for name in ("beat_every", "old_after", "grace")}
        Supervisor(stop_asked=processes.StopAsked(), **seconds).run()
