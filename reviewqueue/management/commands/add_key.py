"""`manage.py add_key AGENT --scope SCOPE ...`: add another key of an agent, for example one that only sends signals."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from reviewqueue.management.command_base import ProvisioningCommand
from reviewqueue.operations.api_keys import SCOPES
from reviewqueue.operations.provisioning import add_agent_key


class Command(ProvisioningCommand):
    help = "Add another key of an agent and print it, once. Keys that exist stay valid."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("agent")
        parser.add_argument(
            "--scope",
            nargs="+",
            choices=SCOPES,
            required=True,
            metavar="SCOPE",
            help="run (workers), control (pause, resume and cancel runs), signal (send and list signals)",
        )
        parser.add_argument("--name", default="", help="what the key is for")

    def change(self, options: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        made = add_agent_key(options["agent"], scopes=options["scope"], name=options["name"])
        members = {"agent": options["agent"], "scopes": made.key.scopes, "key": made.text}
        return members, [
            f"Key of agent {options['agent']} with the scopes {', '.join(made.key.scopes)}.",
            f"Shown only once: {made.text}",
        ]
