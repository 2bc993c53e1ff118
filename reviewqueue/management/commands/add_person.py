"""`manage.py add_person EMAIL --role ROLE [--queue NAME] [--agent NAME] [--invite]`: give a person a role."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from reviewqueue.management.command_base import ProvisioningCommand
from reviewqueue.operations.provisioning.people import ROLES, add_person


class Command(ProvisioningCommand):
    help = "Give a person a role. A new person's password and personal token are printed, once."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("email")
        parser.add_argument("--role", required=True, choices=ROLES)
        parser.add_argument("--queue", default="", metavar="NAME", help="of a reviewer, lead or auditor")
        parser.add_argument("--agent", default="", metavar="NAME", help="of an owner")
        parser.add_argument("--invite", action="store_true", help="send a new person a link to choose a password")

    def change(self, options: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        role = options["role"]
        added = add_person(
            options["email"], role=role, queue=options["queue"], agent=options["agent"], invite=options["invite"]
        )
        address = added.person.get_username()
        members = {"person": address, "role": role, "group": added.group.name}
        members |= {"password": added.password, "token": added.token}
        lines = [f"{address} has the role {role} (group {added.group.name})."]
        if added.is_invited:
            return members, [*lines, f"An invitation is sent to {address}."]
        if added.password is None:
            return members, [*lines, "The person existed already: password and tokens are unchanged."]
        secrets = [f"Password, shown only once: {added.password}", f"Personal token, shown only once: {added.token}"]
        return members, lines + secrets
