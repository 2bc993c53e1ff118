"""`manage.py add_effect_rule PATTERN --agent NAME --reason REASON`: effects that need a person's approval."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from reviewqueue.management.adding import AddingCommand
from reviewqueue.registering import add_effect_rule


class Command(AddingCommand):
    help = "Let an agent's effects whose name fits (a name, or a pattern with * and ?) begin only with an approval."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("pattern")
        parser.add_argument("--agent", required=True, metavar="NAME")
        parser.add_argument("--reason", required=True, help="the reason of the approval that it needs")

    def add(self, options: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        rule = add_effect_rule(options["pattern"], agent=options["agent"], reason=options["reason"])
        told = {"pattern": rule.name_pattern, "agent": options["agent"], "reason": rule.reason}
        return told, [f"Effects of {options['agent']} named {rule.name_pattern} need an approval: {rule.reason}."]
