"""`manage.py add_policy REASON --queue NAME ...`: add the next version of a policy. Open requests keep their version."""

from __future__ import annotations

from argparse import ArgumentTypeError, BooleanOptionalAction
from datetime import timedelta
from typing import Any

from django.core.management.base import CommandParser

from reviewqueue.datetimes import duration_text
from reviewqueue.management.command_base import ProvisioningCommand, duration, open_policy_warnings
from reviewqueue.operations.provisioning.names import ProvisioningError
from reviewqueue.operations.provisioning.policies import POLICY_RULES, add_policy, is_built_in, whole_seconds
from runs.models import Policy, Queue
from runs.policies import BUILT_IN
from runs.states import OnExpiry, OnReject, Risk, RuleRisk, SecondFactor

DURATIONS = {
    "deadline_min": "the shortest time to a deadline",
    "deadline_default": "time to the deadline of a request without one",
    "deadline_max": "the longest time to a deadline",
    "escalate_wait": "time to the deadline in the next queue",
    "permit_ttl": "how long an approval is valid",
    "freshness": "how long a check of the facts is valid",
    "claim_time": "how long a reviewer's claim is valid",
    "expire_paused": "how long a run can stay paused; then it expires",
    "expire_blocked": "how long a run can stay on hold; then it expires",
    "expire_revalidating": "how long a run can wait for the check of its facts; then it expires",
}


class Command(ProvisioningCommand):
    help = (
        "Add the next version of a reason's policy. Options that are omitted keep the value of the last version. "
        "Requests go to its own queue, or to one that --queues lists. "
        f"Every installation has version 1 for the reasons {', '.join(BUILT_IN)}; these have no queue, so a request can "
        "name any. Durations are ISO 8601: PT15M, P2D."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("reason")
        parser.add_argument("--agent", default="", metavar="NAME", help="for this agent only")
        parser.add_argument("--queue", metavar="NAME", help="the queue of a request that names none")
        parser.add_argument(
            "--queues", nargs="*", metavar="NAME", help="other queues that a request can name; empty: none"
        )
        parser.add_argument(
            "--any-queue",
            action=BooleanOptionalAction,
            help="can a request name any queue, and so choose its reviewers?",
        )
        for name, text in DURATIONS.items():
            parser.add_argument(_option(name), type=duration, metavar="DURATION", help=text)
        parser.add_argument(
            "--on-expiry", choices=OnExpiry.values, help="what happens at the deadline, unless the request sets it"
        )
        parser.add_argument(
            "--on-expiry-allowed", nargs="+", choices=OnExpiry.values, help="values that a request can set"
        )
        parser.add_argument(
            "--default-may-approve", action=BooleanOptionalAction, help="can a default answer approve a call?"
        )
        parser.add_argument("--escalate-to", metavar="NAME", help="the next queue")
        parser.add_argument(
            "--escalate-further",
            nargs="*",
            type=_step,
            metavar="NAME=DURATION",
            help="the queues after that one, with their deadlines",
        )
        parser.add_argument(
            "--remind-before",
            nargs="*",
            type=_seconds,
            metavar="DURATION",
            help="reminders before a deadline; empty: none",
        )
        parser.add_argument(
            "--pause-stops-deadline", action=BooleanOptionalAction, help="does a pause of the run stop the deadline?"
        )
        parser.add_argument(
            "--then", choices=[OnExpiry.CANCEL, OnExpiry.FAIL], help="what happens after the last queue"
        )
        parser.add_argument(
            "--on-reject",
            choices=OnReject.values,
            help="after a rejection the agent continues (resume), or the run is cancelled",
        )
        parser.add_argument(
            "--require-reason",
            action=BooleanOptionalAction,
            help="must a rejection, or declining to answer, have a reason?",
        )
        parser.add_argument(
            "--second-factor",
            choices=SecondFactor.values,
            help="which decisions need a fresh second factor: none, those with high risk, or all",
        )
        parser.add_argument(
            "--standing-rules",
            choices=RuleRisk.values,
            help="the highest risk of requests that a lead's standing rule can decide; never: people decide each",
        )
        parser.add_argument("--self-review", action=BooleanOptionalAction, help="can the run's initiator decide?")
        parser.add_argument("--quorum", type=int, metavar="N", help="how many people must approve the same call")
        parser.add_argument("--risk-floor", choices=Risk.values, help="the lowest risk that a request can have")
        parser.add_argument("--max-rounds", type=int, help="how often a review can be renewed")

    def change(self, options: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        rules = {name: options[name] for name in POLICY_RULES if options[name] is not None}
        policy = add_policy(options["reason"], agent=options["agent"], **rules)
        members: dict[str, Any] = {
            "reason": policy.reason,
            "version": policy.version,
            "agent": options["agent"] or None,
        }
        members |= {name: _json_value(getattr(policy, name)) for name in POLICY_RULES}
        of = f" of {options['agent']}" if options["agent"] else ""
        lines = [
            f"Policy of {policy.reason}{of}: version {policy.version}{_replaced_version(policy)}.",
            "Open requests keep their version.",
        ]
        before = sorted({*Policy.objects.exclude(pk=policy.pk).values_list("reason", flat=True)})
        if policy.reason not in before:
            lines.append(f"This is a new reason. Existing reasons: {', '.join(before)}.")
        return members, [*lines, *open_policy_warnings(policy.reason)]


def _replaced_version(policy: Policy) -> str:
    last = Policy.objects.filter(reason=policy.reason, agent=policy.agent_id, version=policy.version - 1).first()
    if last is None:
        return ""
    return f"; it replaces {'the built-in ' if is_built_in(last) else ''}version {last.version}"


def _step(text: str) -> dict[str, Any]:
    queue, _, wait = text.partition("=")
    return {"queue": queue, "seconds": _seconds(wait)}


def _seconds(text: str) -> int:
    try:
        return whole_seconds(duration(text), text)
    except ProvisioningError as refused:
        raise ArgumentTypeError(str(refused)) from None


def _option(rule: str) -> str:
    return "--" + rule.replace("_", "-")


def _json_value(value: Any) -> Any:
    if isinstance(value, timedelta):
        return duration_text(value)
    return value.slug if isinstance(value, Queue) else value
