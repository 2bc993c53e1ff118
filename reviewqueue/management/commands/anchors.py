"""`manage.py anchors`: print the end of every timeline, to be stored where no writer of this database can reach it."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand

from reviewqueue.operations.doctor import history_integrity


class Command(BaseCommand):
    help = "Print the end of every run's timeline, one JSON object per line. Store it elsewhere for `doctor --anchors FILE`."

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            for anchor in history_integrity.anchors():
                self.stdout.write(json.dumps(asdict(anchor)))
            self.stdout.flush()
        except BrokenPipeError:  # the reader (`| head`) has closed the pipe; the buffer would be flushed at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.stdout.fileno())
            sys.exit(1)
