"""What the commands that add something share: `--json`, and a sentence instead of a traceback."""

from __future__ import annotations

from argparse import ArgumentTypeError
from datetime import timedelta
from typing import Any

import simplejson
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

from reviewqueue.datetimes import NotATime, parse_duration
from reviewqueue.operations import health
from reviewqueue.operations.provisioning import NotAdded
from runs.policies import rules_with_open_policies


class AddingCommand(BaseCommand):
    """Adds one thing and says what; `add` returns the members of the JSON object and the lines for people."""

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="print one JSON object instead of sentences")

    def add(self, options: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """Add it."""
        raise NotImplementedError

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            told, lines = self.add(options)
        except NotAdded as refused:
            raise CommandError(str(refused)) from None
        except DatabaseError as fault:
            raise CommandError(_what_ails_the_database(fault)) from None
        self.stdout.write(simplejson.dumps(told, ensure_ascii=False) if options["json"] else "\n".join(lines))


def open_policy_warnings(reason: str, *, agent: str = "") -> list[str]:
    """Return a warning for each effect rule of this reason whose approval may be given in any queue."""
    found = [
        (rule, policy) for rule, policy in rules_with_open_policies(reason=reason) if agent in ("", rule.agent.slug)
    ]
    return [
        f"Warning: {rule.agent.slug} may ask any queue to approve {rule.name_pattern}: version {policy.version} of the "
        f"policy of {policy.reason} does not bind its queues. To bind them: add_policy {policy.reason} --no-any-queue"
        for rule, policy in found
    ]


def _what_ails_the_database(fault: DatabaseError) -> str:
    try:
        is_migrated = health.is_migrated()
    except DatabaseError:
        return f"The database cannot be used: {fault}"
    if not is_migrated:
        return "The database is not migrated: start python3 manage.py up first, or python3 manage.py migrate."
    raise fault


def duration(text: str) -> timedelta:
    """Return an option's duration, for `argparse`."""
    try:
        return parse_duration(text)
    except NotATime as fault:
        raise ArgumentTypeError(f"{text} {fault}.") from None
