"""`manage.py init EMAIL`: migrate the database and create the first administrator, queue and agent."""

from __future__ import annotations

from typing import Any

from django.core.management import call_command
from django.core.management.base import CommandParser

from reviewqueue.management.command_base import ProvisioningCommand
from reviewqueue.operations.installation import PROGRAM
from reviewqueue.operations.provisioning.first_setup import set_up


class Command(ProvisioningCommand):
    help = (
        "Migrate the database, and create the first administrator, the first queue and the first agent. "
        "The password, the personal token and the agent's key are printed, once."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("email", help="of the administrator, who also owns the agent and leads the queue")
        parser.add_argument("--queue", default="approvals", metavar="NAME", help="default: approvals")
        parser.add_argument("--agent", default="first-agent", metavar="NAME", help="default: first-agent")

    def change(self, options: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        call_command("migrate", verbosity=0, interactive=False)
        made = set_up(options["email"], queue=options["queue"], agent=options["agent"])
        address = made.administrator.person.get_username()
        members = {
            "administrator": address,
            "password": made.administrator.password,
            "token": made.administrator.token,
            "queue": made.queue.slug,
            "agent": made.agent.slug,
            "key": made.agent_key.text,
        }
        return members, [
            f"Administrator {address}: operator, owner of agent {made.agent.slug}, lead of queue {made.queue.slug}.",
            f"Password, shown only once: {made.administrator.password}",
            f"Personal token, shown only once: {made.administrator.token}",
            f"Key of agent {made.agent.slug}, shown only once: {made.agent_key.text}",
            "",
            f"Start the server: {PROGRAM} up",
            f"Add a reviewer: {PROGRAM} add_person EMAIL --role reviewer --queue {made.queue.slug}",
            f"Allow an effect: {PROGRAM} add_effect_rule NAME --agent {made.agent.slug} --reason approval.action",
        ]
