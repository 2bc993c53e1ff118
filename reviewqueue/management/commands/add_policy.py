"""`manage.py add_policy REASON --queue NAME ...`: the next version of a reason's policy. Open waits keep theirs."""

from __future__ import annotations

from argparse import BooleanOptionalAction
from datetime import timedelta
from typing import Any

from django.core.management.base import CommandParser

from reviewqueue.datetimes import duration_text
from reviewqueue.management.command_base import AddingCommand, duration, open_policy_warnings
from reviewqueue.operations.provisioning import POLICY_RULES, add_policy, is_built_in
from runs.models import Policy, Queue
from runs.policies import BUILT_IN
from runs.states import OnExpiry, OnReject, Risk

DURATIONS = {
    "deadline_min": "no deadline sooner than this from now",
    "deadline_default": "the deadline of a request that names none",
    "deadline_max": "no deadline later than this from now",
    "escalate_wait": "the deadline in the next queue",
    "permit_ttl": "how long an approval may be spent",
    "freshness": "how long a check of the facts holds",
    "claim_time": "how long a reviewer's claim holds",
}


class Command(AddingCommand):
    help = (
        "Add the next version of a reason's policy: what is not given stays as it was in the last version. "
        "Requests wait in its own queue; others have to be named by --queues. "
        f"Every installation has version 1 for the reasons {', '.join(BUILT_IN)}; these have no queue, so a request names "
        "any. Durations are ISO 8601: PT15M, P2D."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("reason")
        parser.add_argument("--agent", default="", metavar="NAME", help="for this agent only")
        parser.add_argument("--queue", metavar="NAME", help="where its questions wait if the request names no queue")
        parser.add_argument("--queues", nargs="*", metavar="NAME", help="what else a request may name; none: no other")
        parser.add_argument(
            "--any-queue", action=BooleanOptionalAction, help="may a request name any queue, and so choose who decides?"
        )
        for name, words in DURATIONS.items():
            parser.add_argument(_option(name), type=duration, metavar="DURATION", help=words)
        parser.add_argument("--on-expiry", choices=OnExpiry.values, help="at the deadline, if the request does not say")
        parser.add_argument("--on-expiry-allowed", nargs="+", choices=OnExpiry.values, help="what a request may say")
        parser.add_argument(
            "--default-may-approve", action=BooleanOptionalAction, help="may a default answer approve by itself?"
        )
        parser.add_argument("--escalate-to", metavar="NAME", help="the next queue")
        parser.add_argument(
            "--escalate-further", nargs="*", type=_step, metavar="NAME=DURATION", help="the queues after that one"
        )
        parser.add_argument(
            "--remind-before",
            nargs="*",
            type=_seconds,
            metavar="DURATION",
            help="before a deadline; none: no reminders",
        )
        parser.add_argument(
            "--pause-stops-deadline", action=BooleanOptionalAction, help="does the time stand still in a pause?"
        )
        parser.add_argument("--then", choices=[OnExpiry.CANCEL, OnExpiry.FAIL], help="after the last queue")
        parser.add_argument(
            "--on-reject", choices=OnReject.values, help="a no is told to the agent, or cancels the run"
        )
        parser.add_argument("--self-review", action=BooleanOptionalAction, help="may the run's initiator decide?")
        parser.add_argument("--quorum", type=int, metavar="N", help="how many people have to approve the same call")
        parser.add_argument("--risk-floor", choices=Risk.values, help="a request may not call it less risky")
        parser.add_argument("--max-rounds", type=int, help="how often a review may be renewed")

    def add(self, options: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        rules = {name: options[name] for name in POLICY_RULES if options[name] is not None}
        policy = add_policy(options["reason"], agent=options["agent"], **rules)
        told: dict[str, Any] = {"reason": policy.reason, "version": policy.version, "agent": options["agent"] or None}
        told |= {name: _told(getattr(policy, name)) for name in POLICY_RULES}
        of = f" of {options['agent']}" if options["agent"] else ""
        said = [
            f"Policy of {policy.reason}{of}: version {policy.version}{_replaces(policy)}. Waits that are open keep theirs."
        ]
        before = sorted({*Policy.objects.exclude(pk=policy.pk).values_list("reason", flat=True)})
        if policy.reason not in before:
            said.append(f"That is a new reason; known before: {', '.join(before)}.")
        return told, [*said, *open_policy_warnings(policy.reason)]


def _replaces(policy: Policy) -> str:
    last = Policy.objects.filter(reason=policy.reason, agent=policy.agent_id, version=policy.version - 1).first()
    if last is None:
        return ""
    return f"; it replaces {'the built-in ' if is_built_in(last) else ''}version {last.version}"


def _step(text: str) -> dict[str, Any]:
    queue, _, wait = text.partition("=")
    return {"queue": queue, "seconds": _seconds(wait)}


def _seconds(text: str) -> int:
    return int(duration(text).total_seconds())


def _option(rule: str) -> str:
    return "--" + rule.replace("_", "-")


def _told(value: Any) -> Any:
    if isinstance(value, timedelta):
        return duration_text(value)
    return value.slug if isinstance(value, Queue) else value
