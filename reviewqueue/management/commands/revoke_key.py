"""`manage.py revoke_key KEY`: refuse the key from the next request on."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from reviewqueue.management.command_base import ProvisioningCommand
from reviewqueue.operations.api_keys import find_key
from reviewqueue.operations.provisioning.keys import revoke_key
from reviewqueue.operations.provisioning.names import ProvisioningError


class Command(ProvisioningCommand):
    help = "Revoke KEY (its first part, rq_..., is enough)."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("key")

    def change(self, options: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        key = find_key(options["key"])
        if key is None:
            raise ProvisioningError("There is no such key.")
        revoke_key(key.pk)
        return {"revoked": f"rq_{key.prefix}"}, [f"rq_{key.prefix} is revoked."]
