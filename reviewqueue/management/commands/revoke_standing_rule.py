"""`manage.py revoke_standing_rule ID --reason TEXT`: end a lead's standing rule at once, such as in an emergency."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from reviewqueue.management.command_base import ProvisioningCommand
from reviewqueue.operations.provisioning.names import SYSTEM, ProvisioningError
from reviewqueue.standing_rules.administration import revoke_by_command
from runs.models import StandingRule


class Command(ProvisioningCommand):
    help = (
        "Revoke a standing rule. Its decisions whose effects have not begun lose their permits. Only leads make rules, "
        "on the page or by API."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("rule", metavar="ID", help="the id of the rule, such as rul_1")
        parser.add_argument("--reason", required=True, metavar="TEXT", help="why it is revoked")

    def change(self, options: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        try:
            rule = revoke_by_command(options["rule"], reason=options["reason"], actor=SYSTEM)
        except StandingRule.DoesNotExist:
            raise ProvisioningError(f"There is no standing rule {options['rule']}.") from None
        line = f"The standing rule {rule.public_id} is revoked. People decide its requests again."
        return {"rule": rule.public_id, "revoked_by": rule.revoked_by}, [line]
