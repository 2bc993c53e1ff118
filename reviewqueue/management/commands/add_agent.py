"""`manage.py add_agent NAME --owner GROUP`: an agent, with its first key."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from reviewqueue.management.adding import AddingCommand
from reviewqueue.registering import add_agent


class Command(AddingCommand):
    help = "Add an agent and print its key, once. Its owner group answers for what it does."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("name")
        parser.add_argument("--owner", required=True, metavar="GROUP")

    def add(self, options: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        agent, made = add_agent(options["name"], owner=options["owner"])
        told = {"agent": agent.slug, "owner": agent.owner.name, "key": made.text}
        return told, [
            f"Agent {agent.slug}, owned by {agent.owner.name}.",
            f"Its key, shown this once: {made.text}",
        ]
