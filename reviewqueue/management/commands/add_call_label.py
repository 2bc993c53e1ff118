"""`manage.py add_call_label NAME --agent NAME --sentence ... [--argument NAME LABEL [UNIT]]`: words for a call."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from reviewqueue.management.command_base import AddingCommand
from reviewqueue.operations.provisioning import NotAdded, add_call_label


class Command(AddingCommand):
    help = "Put an agent's call into words, such as: Issue purchase order to {supplier} for {amount} EUR"

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("name", help="the call's name")
        parser.add_argument("--agent", required=True, metavar="NAME")
        parser.add_argument("--sentence", required=True, help="arguments stand in braces")
        parser.add_argument(
            "--argument", action="append", nargs="+", default=[], metavar="WORD", help="NAME LABEL [UNIT], repeatable"
        )

    def add(self, options: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        arguments = dict(_argument(words) for words in options["argument"])
        label = add_call_label(
            options["name"], agent=options["agent"], sentence=options["sentence"], arguments=arguments
        )
        told = {"call": label.name, "agent": options["agent"], "sentence": label.sentence, "arguments": arguments}
        return told, [f"{options['agent']} says {label.name} as: {label.sentence}"]


def _argument(words: list[str]) -> tuple[str, dict[str, str]]:
    if len(words) not in {2, 3}:
        raise NotAdded("An argument has a name, a label and perhaps a unit: --argument amount Amount EUR")
    name, *said = words
    return name, dict(zip(("label", "unit"), said, strict=False))
