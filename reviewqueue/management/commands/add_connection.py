"""`manage.py add_connection NAME --agent NAME --url URL [--secret VARIABLE]`: where an agent's facts are looked up."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from reviewqueue.management.command_base import AddingCommand
from reviewqueue.operations.provisioning import add_connection


class Command(AddingCommand):
    help = "Add a connection of an agent: its facts name a path below this address, never an address of their own."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("name")
        parser.add_argument("--agent", required=True, metavar="NAME")
        parser.add_argument("--url", required=True)
        parser.add_argument("--secret", default="", metavar="VARIABLE", help="the environment variable with the secret")

    def add(self, options: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        made = add_connection(options["name"], agent=options["agent"], url=options["url"], secret=options["secret"])
        told = {"connection": made.name, "agent": options["agent"], "url": made.base_url, "secret": made.secret or None}
        return told, [f"Connection {made.name} of {options['agent']}: {made.base_url}."]
