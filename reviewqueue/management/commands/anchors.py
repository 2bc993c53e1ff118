"""`manage.py anchors`: where every timeline stands, a line each, to be kept where nobody of this database can write."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand

from reviewqueue.doctor import history


class Command(BaseCommand):
    help = "Write where every run's timeline stands, a line each. Keep it elsewhere: `doctor --anchors FILE` compares."

    def handle(self, *args: Any, **options: Any) -> None:
        for anchor in history.anchors():
            self.stdout.write(json.dumps(asdict(anchor)))
