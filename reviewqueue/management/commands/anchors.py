"""`manage.py anchors`: where every timeline ends, a line each, to be kept where no writer of this database can reach it."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand

from reviewqueue.operations.doctor import history_integrity


class Command(BaseCommand):
    help = "Write where every run's timeline stands, a line each. Keep it elsewhere: `doctor --anchors FILE` compares."

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            for anchor in history_integrity.anchors():
                self.stdout.write(json.dumps(asdict(anchor)))
            self.stdout.flush()
        except BrokenPipeError:  # whoever read (`| head`) has enough; what is left would be written at the very end
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.stdout.fileno())
            sys.exit(1)
