"""`manage.py add_chat QUEUE --variable NAME [--min-risk RISK]`: notify a chat channel or webhook about a queue."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from reviewqueue.management.command_base import ProvisioningCommand
from reviewqueue.operations.provisioning.queues import add_chat_channel
from runs.states import Risk


class Command(ProvisioningCommand):
    help = "Notify a chat channel about the requests of a queue. Its address stays in an environment variable."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("queue")
        parser.add_argument("--variable", required=True, metavar="NAME", help="contains the Apprise URL")
        parser.add_argument("--min-risk", default=Risk.LOW, choices=Risk.values, help="of the requests to report")

    def change(self, options: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        added = add_chat_channel(options["queue"], variable=options["variable"], min_risk=options["min_risk"])
        members = {"id": added.public_id, "queue": options["queue"], "variable": added.variable}
        lines = [f"Queue {options['queue']} notifies the channel of {added.variable}."]
        return members, [*lines, "Set the variable for every worker, and restart the workers."]
