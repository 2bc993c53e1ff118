"""`manage.py remove_effect_rule PATTERN --agent NAME`: remove an effect rule; the configuration records its removal."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from reviewqueue.management.command_base import ProvisioningCommand
from reviewqueue.operations.installation import PROGRAM
from reviewqueue.operations.provisioning.agents import remove_effect_rule
from runs.states import EffectMode


class Command(ProvisioningCommand):
    help = (
        "Remove an agent's effect rule. Effects without another rule are then refused (effect_not_allowed), unless the "
        "agent may begin any effect: then they need no approval."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("pattern", help="exactly as it was added")
        parser.add_argument("--agent", required=True, metavar="NAME")

    def change(self, options: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        rule = remove_effect_rule(options["pattern"], agent=options["agent"])
        lines = [f"Agent {options['agent']} no longer has a rule for {rule.name_pattern}."]
        if rule.agent.effect_mode == EffectMode.ANY:
            lines.append(f"Agent {options['agent']} may begin effects without a rule. See {PROGRAM} set_effects -h.")
        return {"pattern": rule.name_pattern, "agent": options["agent"]}, lines
