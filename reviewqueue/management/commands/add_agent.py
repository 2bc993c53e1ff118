"""`manage.py add_agent NAME --owner GROUP`: add an agent with its first key."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from reviewqueue.management.command_base import ProvisioningCommand
from reviewqueue.operations.api_keys import SCOPES
from reviewqueue.operations.installation import PROGRAM
from reviewqueue.operations.provisioning.agents import MODE_LABELS, add_agent
from runs.states import EffectMode


class Command(ProvisioningCommand):
    help = "Add an agent and print its key, once. Its owner group is responsible for what it does."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("name")
        parser.add_argument("--owner", required=True, metavar="GROUP")
        parser.add_argument(
            "--effects",
            choices=EffectMode.values,
            default=EffectMode.LISTED,
            help="listed (default): it may begin only effects with an effect rule (add_effect_rule); any: every effect",
        )
        parser.add_argument(
            "--scope",
            nargs="+",
            choices=SCOPES,
            default=list(SCOPES),
            metavar="SCOPE",
            help=f"scopes of the key, of {', '.join(SCOPES)} (default: all)",
        )

    def change(self, options: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        agent, made = add_agent(
            options["name"], owner=options["owner"], effects=options["effects"], scopes=options["scope"]
        )
        members = {
            "agent": agent.slug,
            "owner": agent.owner.name,
            "effects": agent.effect_mode,
            "scopes": made.key.scopes,
            "key": made.text,
        }
        mode = MODE_LABELS[EffectMode(agent.effect_mode)]
        hint = f": {PROGRAM} add_effect_rule" if agent.effect_mode == EffectMode.LISTED else ""
        return members, [
            f"Agent {agent.slug}, owned by {agent.owner.name}. It may begin {mode}{hint}.",
            f"Its key, shown only once: {made.text}",
        ]
