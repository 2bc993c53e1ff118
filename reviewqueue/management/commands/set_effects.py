"""`manage.py set_effects AGENT listed|any`: which effects an agent may begin."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from reviewqueue.management.command_base import ProvisioningCommand
from reviewqueue.operations.provisioning.agents import MODE_LABELS, set_effect_mode
from runs.states import EffectMode


class Command(ProvisioningCommand):
    help = (
        "Let an agent begin only effects with an effect rule (listed), or any effect (any: rules then only require "
        "approvals). Add the rules before you switch to listed: effects without a rule are refused (effect_not_allowed)."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("agent")
        parser.add_argument("effects", choices=EffectMode.values)

    def change(self, options: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        agent = set_effect_mode(options["agent"], effects=options["effects"])
        lines = [f"Agent {agent.slug} may begin {MODE_LABELS[EffectMode(agent.effect_mode)]}."]
        return {"agent": agent.slug, "effects": agent.effect_mode}, lines
