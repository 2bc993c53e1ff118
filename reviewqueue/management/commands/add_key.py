"""`manage.py add_key AGENT --scope SCOPE ...`: add another key of an agent, for example one that only sends signals."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from ledger import clock
from ledger.datetimes import format_datetime
from reviewqueue.management.command_base import ProvisioningCommand, duration
from reviewqueue.operations.api_keys import SCOPES
from reviewqueue.operations.provisioning.keys import add_agent_key


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
        parser.add_argument("--expires-in", type=duration, metavar="DURATION", help="such as P90D (default: never)")

    def change(self, options: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        lasts = options["expires_in"]
        expires_at = None if lasts is None else clock.now() + lasts
        made = add_agent_key(options["agent"], scopes=options["scope"], name=options["name"], expires_at=expires_at)
        ends = None if expires_at is None else format_datetime(expires_at)
        members = {"agent": options["agent"], "scopes": made.key.scopes, "expires_at": ends, "key": made.text}
        return members, [
            f"Key of agent {options['agent']} with the scopes {', '.join(made.key.scopes)}.",
            f"Shown only once: {made.text}",
        ]
