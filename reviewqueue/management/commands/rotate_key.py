"""`manage.py rotate_key KEY [--overlap DURATION]`: replace a key; the old one expires after the overlap."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.core.management.base import CommandParser

from ledger.datetimes import format_datetime
from reviewqueue.datetimes import duration_text
from reviewqueue.management.command_base import ProvisioningCommand, duration
from reviewqueue.operations.api_keys import find_key
from reviewqueue.operations.provisioning.keys import rotate_key
from reviewqueue.operations.provisioning.names import ProvisioningError

OVERLAP = timedelta(days=1)


class Command(ProvisioningCommand):
    help = "Create a new key for the holder of KEY (its first part, rq_..., is enough). The old one ends after the overlap."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("key")
        parser.add_argument(
            "--overlap",
            type=duration,
            default=OVERLAP,
            help=f"how long the old key remains valid (default {duration_text(OVERLAP)})",
        )

    def change(self, options: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        old = find_key(options["key"])
        if old is None or old.revoked_at is not None:
            raise ProvisioningError("There is no such key, or it is revoked.")
        made = rotate_key(old.pk, overlap=options["overlap"])
        old.refresh_from_db()
        ends = format_datetime(old.expires_at) if old.expires_at else None
        members = {"key": made.text, "old": f"rq_{old.prefix}", "old_ends": ends}
        return members, [f"The new key, shown only once: {made.text}", f"rq_{old.prefix} expires at {ends}."]
