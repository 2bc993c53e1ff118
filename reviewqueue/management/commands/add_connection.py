"""`manage.py add_connection NAME --agent NAME --url URL [--secret VARIABLE]`: a server for fetching facts."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from reviewqueue.management.command_base import ProvisioningCommand
from reviewqueue.operations.provisioning.connections import add_connection


class Command(ProvisioningCommand):
    help = "Add a connection of an agent. Its facts name a path below this URL, never a URL of their own."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("name")
        parser.add_argument("--agent", required=True, metavar="NAME")
        parser.add_argument("--url", required=True)
        parser.add_argument(
            "--secret", default="", metavar="VARIABLE", help="the environment variable that contains the secret"
        )

    def change(self, options: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        made = add_connection(options["name"], agent=options["agent"], url=options["url"], secret=options["secret"])
        members = {
            "connection": made.name,
            "agent": options["agent"],
            "url": made.base_url,
            "secret": made.secret or None,
        }
        return members, [f"Connection {made.name} of {options['agent']}: {made.base_url}."]
