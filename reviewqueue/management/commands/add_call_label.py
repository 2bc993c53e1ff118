"""`manage.py add_call_label NAME --agent NAME --sentence ... [--argument NAME LABEL [UNIT]]`: a readable label of a call."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from reviewqueue.management.command_base import ProvisioningCommand
from reviewqueue.operations.provisioning.agents import add_call_label
from reviewqueue.operations.provisioning.names import ProvisioningError


class Command(ProvisioningCommand):
    help = "Add a readable sentence for a call, such as: Issue purchase order to {supplier} for {amount} EUR"

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("name", help="the call's name")
        parser.add_argument("--agent", required=True, metavar="NAME")
        parser.add_argument("--sentence", required=True, help="argument names in braces")
        parser.add_argument(
            "--argument", action="append", nargs="+", default=[], metavar="PART", help="NAME LABEL [UNIT], repeatable"
        )

    def change(self, options: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        arguments = dict(_argument(parts) for parts in options["argument"])
        label = add_call_label(
            options["name"], agent=options["agent"], sentence=options["sentence"], arguments=arguments
        )
        members = {"call": label.name, "agent": options["agent"], "sentence": label.sentence, "arguments": arguments}
        return members, [f"Calls {label.name} of agent {options['agent']} are shown as: {label.sentence}"]


def _argument(parts: list[str]) -> tuple[str, dict[str, str]]:
    if len(parts) not in {2, 3}:
        raise ProvisioningError("--argument takes a name, a label and optionally a unit: --argument amount Amount EUR")
    name, *texts = parts
    return name, dict(zip(("label", "unit"), texts, strict=False))
