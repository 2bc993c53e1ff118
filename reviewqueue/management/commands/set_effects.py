"""`manage.py set_effects AGENT listed|any`: may an agent begin only effects that its rules name, or any?"""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from reviewqueue.management.command_base import AddingCommand
from reviewqueue.operations.provisioning import MODE_LABELS, set_effect_mode
from runs.states import EffectMode


class Command(AddingCommand):
    help = (
        "Let an agent begin only effects that an effect rule names (listed), or any effect (any: rules then only say which "
        "need an approval). Add the rules before you switch to listed: what no rule names is refused (effect_not_allowed)."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("agent")
        parser.add_argument("effects", choices=EffectMode.values)

    def add(self, options: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        agent = set_effect_mode(options["agent"], effects=options["effects"])
        said = [f"{agent.slug} may begin {MODE_LABELS[EffectMode(agent.effect_mode)]}."]
        return {"agent": agent.slug, "effects": agent.effect_mode}, said
