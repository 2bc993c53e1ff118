"""`manage.py add_agent NAME --owner GROUP`: an agent, with its first key."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from reviewqueue.management.command_base import AddingCommand
from reviewqueue.operations.provisioning import MODE_LABELS, add_agent
from runs.states import EffectMode


class Command(AddingCommand):
    help = "Add an agent and print its key, once. Its owner group answers for what it does."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("name")
        parser.add_argument("--owner", required=True, metavar="GROUP")
        parser.add_argument(
            "--effects",
            choices=EffectMode.values,
            default=EffectMode.LISTED,
            help="listed (the default): it may begin only effects that a rule names (add_effect_rule); any: every effect",
        )

    def add(self, options: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        agent, made = add_agent(options["name"], owner=options["owner"], effects=options["effects"])
        told = {"agent": agent.slug, "owner": agent.owner.name, "effects": agent.effect_mode, "key": made.text}
        may = MODE_LABELS[EffectMode(agent.effect_mode)]
        how = ": manage.py add_effect_rule" if agent.effect_mode == EffectMode.LISTED else ""
        return told, [
            f"Agent {agent.slug}, owned by {agent.owner.name}. It may begin {may}{how}.",
            f"Its key, shown this once: {made.text}",
        ]
