"""`manage.py add_effect_rule PATTERN --agent NAME (--allow | --reason REASON)`: which effects an agent may begin."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from reviewqueue.management.command_base import AddingCommand, open_policy_warnings
from reviewqueue.operations.provisioning import add_effect_rule
from runs.states import EffectMode


class Command(AddingCommand):
    help = (
        "Say of an agent's effects whose name fits (a name, or a pattern with * and ?) that they may begin freely, or only "
        "with an approval. The closest rule counts: an exact name before a pattern, a longer pattern before a shorter one. "
        "A near spelling of a name that is set is refused."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("pattern")
        parser.add_argument("--agent", required=True, metavar="NAME")
        action = parser.add_mutually_exclusive_group(required=True)
        action.add_argument("--allow", action="store_true", help="they need no approval")
        action.add_argument("--reason", help="they need an approval for this reason")

    def add(self, options: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        reason = "" if options["allow"] else options["reason"]
        rule = add_effect_rule(options["pattern"], agent=options["agent"], reason=reason)
        told = {"pattern": rule.name_pattern, "agent": options["agent"], "action": rule.action, "reason": rule.reason}
        if not reason:
            return told, [f"Effects of {options['agent']} named {rule.name_pattern} may begin without an approval."]
        said = [f"Effects of {options['agent']} named {rule.name_pattern} need an approval: {rule.reason}."]
        if rule.agent.effect_mode == EffectMode.ANY:
            said.append(f"{options['agent']} may begin any other effect: see manage.py set_effects -h.")
        return told, [*said, *open_policy_warnings(rule.reason, agent=options["agent"])]
