"""`manage.py reset_second_factor EMAIL`: remove a person's second factors after a loss."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from reviewqueue.management.command_base import ProvisioningCommand
from reviewqueue.operations.people import reset_second_factors_by_command


class Command(ProvisioningCommand):
    help = (
        "Remove a person's second factors and recovery codes, and end the person's sessions. "
        "For an operator who has lost them; other people are reset on the page People."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("email")

    def change(self, options: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        address = reset_second_factors_by_command(options["email"]).get_username()
        return {"person": address}, [f"{address} has no second factor now and is signed out everywhere."]
