"""Base class of commands that change the set-up: `--json` output, and one sentence instead of a traceback."""

from __future__ import annotations

from argparse import ArgumentTypeError
from datetime import timedelta
from typing import Any

import simplejson
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

from ledger.datetimes import InvalidDatetime
from reviewqueue.datetimes import parse_duration
from reviewqueue.operations import health
from reviewqueue.operations.installation import PROGRAM
from reviewqueue.operations.provisioning.names import ProvisioningError
from runs.policies import rules_with_any_queue


class ProvisioningCommand(BaseCommand):
    """A command that makes one change. ``change`` returns the members of the JSON output and the lines of text output."""

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="print one JSON object instead of sentences")

    def change(self, options: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """Make the change. Raises ``ProvisioningError``."""
        raise NotImplementedError

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            members, lines = self.change(options)
        except ProvisioningError as refused:
            option = f"Option: --{refused.rule.replace('_', '-')}." if refused.rule else ""
            raise CommandError(" ".join(filter(None, [str(refused), option, refused.hint]))) from None
        except DatabaseError as fault:
            raise CommandError(_database_fault(fault)) from None
        self.stdout.write(simplejson.dumps(members, ensure_ascii=False) if options["json"] else "\n".join(lines))


def open_policy_warnings(reason: str, *, agent: str = "") -> list[str]:
    """Return a warning for each effect rule whose approval for this reason can come from any queue."""
    found = [(rule, policy) for rule, policy in rules_with_any_queue(reason=reason) if agent in ("", rule.agent.slug)]
    return [
        f"Warning: agent {rule.agent.slug} can ask any queue to approve {rule.name_pattern}, because version "
        f"{policy.version} of the policy of {policy.reason} does not restrict its queues. To restrict them: "
        f"{PROGRAM} add_policy {policy.reason} --no-any-queue"
        for rule, policy in found
    ]


def _database_fault(fault: DatabaseError) -> str:
    try:
        is_migrated = health.is_migrated()
    except DatabaseError:
        return f"The database cannot be used: {fault}"
    if not is_migrated:
        return f"The database is not migrated. Run {PROGRAM} up, or {PROGRAM} migrate."
    raise fault


def duration(text: str) -> timedelta:
    """Parse an ISO 8601 duration for `argparse`."""
    try:
        return parse_duration(text)
    except InvalidDatetime as fault:
        raise ArgumentTypeError(f"{text} {fault}.") from None
