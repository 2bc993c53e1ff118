"""`manage.py rotate_key KEY [--overlap DURATION]`: a new key for the same holder; the old one ends a little later."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.core.management.base import CommandParser

from reviewqueue.datetimes import duration_text, moment_text
from reviewqueue.management.command_base import AddingCommand, duration
from reviewqueue.operations.api_keys import find_key, rotate_key
from reviewqueue.operations.provisioning import NotAdded

OVERLAP = timedelta(days=1)


class Command(AddingCommand):
    help = "Make a new key for the holder of KEY (its first part, rq_..., is enough) and let the old one end."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("key")
        parser.add_argument("--overlap", type=duration, default=OVERLAP, help=f"default {duration_text(OVERLAP)}")

    def add(self, options: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        old = find_key(options["key"])
        if old is None or old.revoked_at is not None:
            raise NotAdded("There is no such key, or it was revoked.")
        made = rotate_key(old, overlap=options["overlap"])
        old.refresh_from_db()
        ends = moment_text(old.expires_at) if old.expires_at else None
        told = {"key": made.text, "old": f"rq_{old.prefix}", "old_ends": ends}
        return told, [f"The new key, shown this once: {made.text}", f"rq_{old.prefix} ends at {ends}."]
