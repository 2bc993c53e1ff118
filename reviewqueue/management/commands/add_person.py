"""`manage.py add_person EMAIL --role ROLE [--queue NAME] [--agent NAME]`: a person, or one more role of a person."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from reviewqueue.management.command_base import AddingCommand
from reviewqueue.operations.provisioning import ROLES, add_person


class Command(AddingCommand):
    help = "Give a person a role. A new person's password and personal token are printed, once."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("email")
        parser.add_argument("--role", required=True, choices=ROLES)
        parser.add_argument("--queue", default="", metavar="NAME", help="of a reviewer, lead or auditor")
        parser.add_argument("--agent", default="", metavar="NAME", help="of an owner")

    def add(self, options: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        role = options["role"]
        added = add_person(options["email"], role=role, queue=options["queue"], agent=options["agent"])
        address = added.person.get_username()
        told = {"person": address, "role": role, "group": added.group.name}
        told |= {"password": added.password, "token": added.token}
        lines = [f"{address} is {role} now (group {added.group.name})."]
        if added.password is None:
            return told, [*lines, "The person was known: the password and the tokens are as before."]
        shown = [f"Password, shown this once: {added.password}", f"Personal token, shown this once: {added.token}"]
        return told, lines + shown
