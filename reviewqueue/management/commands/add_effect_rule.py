"""`manage.py add_effect_rule PATTERN --agent NAME (--allow | --reason REASON)`: which effects an agent may begin."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from reviewqueue.management.command_base import ProvisioningCommand, open_policy_warnings
from reviewqueue.operations.installation import PROGRAM
from reviewqueue.operations.provisioning.agents import add_effect_rule
from runs.states import EffectMode


class Command(ProvisioningCommand):
    help = (
        "Allow an agent's effects whose name matches (a name, or a pattern with * and ?), or require an approval for them. "
        "The most specific rule applies: an exact name before a pattern, a longer pattern before a shorter one. "
        "A look-alike of a name with a rule is refused."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("pattern")
        parser.add_argument("--agent", required=True, metavar="NAME")
        action = parser.add_mutually_exclusive_group(required=True)
        action.add_argument("--allow", action="store_true", help="they need no approval")
        action.add_argument("--reason", help="they need an approval for this reason")

    def change(self, options: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        reason = "" if options["allow"] else options["reason"]
        rule = add_effect_rule(options["pattern"], agent=options["agent"], reason=reason)
        members = {
            "pattern": rule.name_pattern,
            "agent": options["agent"],
            "action": rule.action,
            "reason": rule.reason,
        }
        if not reason:
            return members, [f"Effects {rule.name_pattern} of agent {options['agent']} need no approval."]
        lines = [f"Effects {rule.name_pattern} of agent {options['agent']} need an approval: {rule.reason}."]
        if rule.agent.effect_mode == EffectMode.ANY:
            lines.append(f"Agent {options['agent']} may begin any other effect. See {PROGRAM} set_effects -h.")
        return members, [*lines, *open_policy_warnings(rule.reason, agent=options["agent"])]
