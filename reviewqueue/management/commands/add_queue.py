"""`manage.py add_queue NAME --owner GROUP`: add a queue with its groups of people."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from reviewqueue.management.command_base import ProvisioningCommand
from reviewqueue.operations.provisioning.queues import add_queue


class Command(ProvisioningCommand):
    help = "Add a queue, and the groups of its reviewers, leads and auditors, named after it."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("name")
        parser.add_argument("--owner", required=True, metavar="GROUP")

    def change(self, options: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        queue = add_queue(options["name"], owner=options["owner"])
        groups = {"reviewers": queue.reviewers.name, "leads": queue.leads.name, "auditors": queue.auditors.name}
        members = {"queue": queue.slug, "owner": queue.owner.name, **groups}
        return members, [f"Queue {queue.slug}, owned by {queue.owner.name}. Groups: {', '.join(groups.values())}."]
