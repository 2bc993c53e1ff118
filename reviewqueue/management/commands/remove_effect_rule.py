"""`manage.py remove_effect_rule PATTERN --agent NAME`: remove an effect rule; the configuration records its removal."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from reviewqueue.management.command_base import AddingCommand
from reviewqueue.operations.provisioning import remove_effect_rule
from runs.states import EffectMode


class Command(AddingCommand):
    help = (
        "Remove an agent's effect rule. What only this rule allowed is refused then (effect_not_allowed), unless the agent "
        "may begin any effect; then it begins without an approval."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("pattern", help="exactly as it was added")
        parser.add_argument("--agent", required=True, metavar="NAME")

    def add(self, options: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        rule = remove_effect_rule(options["pattern"], agent=options["agent"])
        said = [f"{options['agent']} has no rule for {rule.name_pattern} any more."]
        if rule.agent.effect_mode == EffectMode.ANY:
            said.append(f"{options['agent']} may begin effects that no rule names: see manage.py set_effects -h.")
        return {"pattern": rule.name_pattern, "agent": options["agent"]}, said
