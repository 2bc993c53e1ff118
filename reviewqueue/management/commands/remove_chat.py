"""`manage.py remove_chat QUEUE --variable NAME`: stop notifying a chat channel about a queue."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from reviewqueue.management.command_base import ProvisioningCommand
from reviewqueue.operations.provisioning.queues import remove_chat_channel


class Command(ProvisioningCommand):
    help = "Stop notifying a chat channel. Messages that are due are not sent."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("queue")
        parser.add_argument("--variable", required=True, metavar="NAME", help="as given to add_chat")

    def change(self, options: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        removed = remove_chat_channel(options["queue"], variable=options["variable"])
        members = {"id": removed.public_id, "queue": options["queue"], "variable": removed.variable}
        return members, [f"Queue {options['queue']} no longer notifies the channel of {removed.variable}."]
