"""Standing rules for tests: a lead, a policy that allows rules, and requests within one."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction

from ledger import clock
from reviewqueue.operations import rule_sweep
from reviewqueue.standing_rules import administration
from runs import standing_rules
from runs.models import Decision, Interrupt, StandingRule
from runs.use_cases.start_run import StartedRun
from tests import builders

REFUND = {"name": "refund", "arguments": {"amount": "12.50", "currency": "EUR"}}
BELOW_20 = {"pointer": "/arguments/amount", "test": "below", "value": "20"}
IN_EUR = {"pointer": "/arguments/currency", "test": "equals", "value": "EUR"}


def a_lead(address: str = "lea@example.org", queue: str = "engineering") -> User:
    builders.a_queue(queue)
    return builders.a_person(address, f"{queue}-leads")


def a_refund(amount: Any = "12.50", *, started: StartedRun | None = None, **asked: Any) -> Interrupt:
    """Return an open request for a refund with low risk, of a run of its own."""
    proposal = {"name": "refund", "arguments": REFUND["arguments"] | {"amount": amount}}
    wanted = {"proposal": proposal, "title": "A refund", "wish": {"risk": "low"}, **asked}
    return builders.a_waiting_interrupt(builders.a_wait(**wanted), started=started)


def terms(**changes: Any) -> dict[str, Any]:
    """Return what a lead states for "refunds under 20 EUR for a week, at most 50"."""
    stated: dict[str, Any] = {
        "queue": "engineering",
        "agent": "purchase-requests",
        "reason": "approval.action",
        "call": "refund",
        "bounds": [BELOW_20, IN_EUR],
        "max_uses": 50,
        "ends_at": clock.now() + timedelta(days=7),
        "note": "Small refunds are always right.",
    }
    return stated | changes


def a_standing_rule(lead: User | None = None, *, risk: str = "medium", **changes: Any) -> StandingRule:
    """Return a rule of a lead, in a queue whose policy allows rules up to this risk."""
    builders.a_policy(standing_rules=risk)
    if not Interrupt.objects.exists():
        a_refund("900")  # an agent is offered only after its first request
    return administration.add_rule(lead or a_lead(), **terms(**changes))


def a_decided_refund(lead: User | None = None) -> tuple[StandingRule, Decision]:
    """Return a rule and the decision that it made."""
    rule = a_standing_rule(lead)
    wanted = a_refund()
    assert rule_sweep.apply_rules(limit=10) == 1
    return rule, Decision.objects.get(interrupt=wanted)


@transaction.atomic
def a_rule_of(lead: User) -> StandingRule:
    """Return a rule that is stored without the checks of its terms, so that no policy changes."""
    stated = terms() | {"queue": builders.a_queue(), "agent": builders.an_agent(), "bounds": ()}
    return standing_rules.add_rule(standing_rules.RuleTerms(**stated), by=lead, now=clock.now())
