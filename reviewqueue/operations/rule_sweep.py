"""The sweep of standing rules: it compares open requests with the rules of their queue, and decides those within one.

Each decision is a transaction of its own through the gateway. A request that a rule does not decide is compared again
only after it changed, or if a person or its run held it.
"""

from __future__ import annotations

import logging

from ledger import clock
from ledger.errors import Refusal
from ledger.log_context import part_of_task
from reviewqueue import resume_gateway
from reviewqueue.standing_rules.eligibility import RuleCannotDecide, RuleDoesNotApply, covers
from reviewqueue.standing_rules.unexamined import (
    active_rules,
    forget_ended_rules,
    record_examined,
    unexamined_requests,
)
from reviewqueue.tasks import SWEEP_LIMIT, entry_point
from runs.models import Interrupt, StandingRule
from runs.policies import needs_second_factor
from runs.standing_rules import bounds_of
from runs.use_cases.plant_request import withdraw_covered

logger = logging.getLogger(__name__)

#: Refusals that do not last: another transaction came first, or the lead cannot decide the request now.
_PASSING = frozenset({"busy", "claimed_by_other", "not_permitted", "stale_version"})


@entry_point
def decide_by_standing_rules() -> None:
    """Compare open requests with the standing rules."""
    apply_rules(limit=SWEEP_LIMIT)


def apply_rules(*, limit: int) -> int:
    """Compare up to ``limit`` requests with the rules, and return how many were decided.

    Each rule has a share of the limit, and what the rules before it left. A request that fails is logged and stays with
    people.
    """
    forget_ended_rules()
    now, decided = clock.now(), 0
    rules = active_rules(now=now)
    for place, rule in enumerate(rules):
        share = -(-limit // (len(rules) - place))
        # Only ids are read at once, because proposals can be large.
        found = list(unexamined_requests(rule, now=now).order_by("id").values_list("pk", flat=True)[:share])
        limit -= len(found)
        for pk in found:
            interrupt = Interrupt.objects.select_related("policy", "schema", "run").get(pk=pk)
            with part_of_task():
                try:
                    decided += _compare(rule, interrupt)
                except RuleCannotDecide:
                    break
                except Exception:
                    logger.exception("a request failed in the sweep of standing rules", extra={"pk": pk})
                    record_examined(rule, interrupt)
    return decided


def apply_rule(rule: StandingRule, interrupt: Interrupt) -> bool:
    """Let the rule decide the request if it is within the rule. Returns whether it did."""
    try:
        return _compare(rule, interrupt)
    except RuleCannotDecide:
        return False


def _compare(rule: StandingRule, interrupt: Interrupt) -> bool:
    try:
        is_covered = covers(rule.call, bounds_of(rule), interrupt.proposal, interrupt.verdicts)
        if is_covered and not needs_second_factor(interrupt):
            if interrupt.run.planted:  # were it left open, the rule's preview would show what it is
                withdraw_covered(interrupt_pk=interrupt.pk, now=clock.now())
                return False
            resume_gateway.submit_rule_decision(rule, interrupt)
            return True
    except RuleCannotDecide:
        raise
    except RuleDoesNotApply as reason:
        if not reason.is_final:
            return False
    except Refusal as refusal:
        if refusal.code in _PASSING:
            return False
    record_examined(rule, interrupt)
    return False
