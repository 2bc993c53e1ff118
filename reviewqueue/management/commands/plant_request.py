"""`manage.py plant_request`: plant a known-bad request in the name of a lead, or withdraw one."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import CommandParser

from ledger.errors import NotFound, PayloadInvalid, Refusal
from ledger.exact_json import parse
from reviewqueue.management.command_base import ProvisioningCommand
from reviewqueue.operations.provisioning.names import ProvisioningError
from reviewqueue.review_quality import planted_requests


class Command(ProvisioningCommand):
    help = "Plant a known-bad request in a queue, in the name of a lead of the queue; --withdraw withdraws one."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--lead", required=True, metavar="ADDRESS", help="the lead who plants it")
        parser.add_argument("--withdraw", metavar="ID", default="", help="withdraw this planted request instead")
        parser.add_argument("--queue", default="", help="the queue, which the lead leads")
        parser.add_argument("--copy-of", metavar="ID", default="", help="the request to copy")
        parser.add_argument("--arguments", metavar="JSON", default="{}", help="the arguments of the call")
        parser.add_argument("--fault", metavar="TEXT", default="", help="what is wrong with it")
        parser.add_argument(
            "--expect", action="append", choices=planted_requests.CATCHING, help="verdict that catches it"
        )
        for name in ("agent", "reason", "call", "title", "message"):
            parser.add_argument(f"--{name}", default="", help="left out: that of the copied request")

    def change(self, options: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        lead = get_user_model().objects.filter(username=options["lead"], is_active=True).first()
        if lead is None:
            raise ProvisioningError(f"{options['lead']} is not an active person.")
        try:
            if options["withdraw"]:
                row = planted_requests.withdraw(lead, options["withdraw"])
                return {"planted": row.public_id, "status": row.outcome}, [f"{row.public_id} is withdrawn."]
            names = ("queue", "copy_of", "fault", "agent", "reason", "call", "title", "message")
            written = {name: options[name] for name in names}
            expected = options["expect"] or list(planted_requests.CATCHING)
            row = planted_requests.plant(lead, **written, arguments=parse(options["arguments"]), expected=expected)
        except PayloadInvalid as refused:
            problems = [f"{it.pointer.lstrip('/')} {it.message}".strip() for it in refused.errors]
            raise ProvisioningError(f"{'; '.join(problems) or refused.detail}.") from None
        except NotFound:
            raise ProvisioningError(f"{options['lead']} leads no such queue, or has no such request.") from None
        except Refusal as refusal:
            raise ProvisioningError(refusal.detail) from None
        line = f"{row.public_id} is planted in {row.queue.slug}. Reviewers cannot tell it from other requests."
        return {"planted": row.public_id, "interrupt": row.interrupt.public_id}, [line]
