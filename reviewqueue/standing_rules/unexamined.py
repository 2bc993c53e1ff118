"""Which open requests the standing rules were not compared with yet."""

from __future__ import annotations

from datetime import datetime

from django.db.models import Exists, OuterRef, QuerySet

from ledger import clock
from ledger.errors import Refusal
from reviewqueue import permissions
from reviewqueue.models import ExaminedRequest
from reviewqueue.standing_rules.eligibility import are_free, own_policy_allows, requests_in_scope
from runs.models import Interrupt, StandingRule
from runs.policies import RULE_RISKS, allows_standing_rules, current_policy
from runs.standing_rules import rules_in_time, used_count
from runs.states import InterruptStatus


def has_requests_to_examine() -> bool:
    """Tell whether a rule has an open request that it was not compared with, or rows remain of a rule that ended."""
    now = clock.now()
    if any(unexamined_requests(rule, now=now).exists() for rule in active_rules(now=now)):
        return True
    return _rows_of_ended_rules(now=now).exists()


def active_rules(*, now: datetime) -> list[StandingRule]:
    """Return the rules that can decide now: in time, not used up, and their lead may still have them."""
    rules = rules_in_time(now=now).filter(permissions.maker_may_have_rule()).annotate(used=used_count())
    return [rule for rule in rules if (rule.used or 0) < rule.max_uses]


def unexamined_requests(rule: StandingRule, *, now: datetime) -> QuerySet[Interrupt]:
    """Return the open requests in the rule's scope whose present version it was not compared with.

    Those that the rule can never decide, by their policy, the current one or their initiator, are left out: they would
    take the places of others in each sweep. Planted requests are compared as others are; a rule withdraws them.
    """
    try:
        policy = current_policy(rule.agent, rule.reason)
    except Refusal:  # it differs from its record
        return Interrupt.objects.none()
    risks = [risk for risk in RULE_RISKS if allows_standing_rules(policy, risk)]
    examined = ExaminedRequest.objects.filter(
        rule=rule.pk, interrupt=OuterRef("pk"), state_version=OuterRef("state_version")
    )
    scope = requests_in_scope(queue=rule.queue_id, agent=rule.agent_id, reason=rule.reason)
    waiting = scope.filter(are_free(now=now), status=InterruptStatus.WAITING, deadline__gt=now)
    decidable = waiting.filter(own_policy_allows(), risk__in=risks).exclude(run__initiator=rule.made_by_id)
    return decidable.filter(~Exists(examined))


def record_examined(rule: StandingRule, interrupt: Interrupt) -> None:
    """Record that the rule does not decide this version of the request."""
    version = {"state_version": interrupt.state_version}
    ExaminedRequest.objects.update_or_create(rule=rule, interrupt=interrupt, defaults=version)


def forget_ended_rules() -> None:
    """Delete what was recorded for rules that ended."""
    _rows_of_ended_rules(now=clock.now()).delete()


def _rows_of_ended_rules(*, now: datetime) -> QuerySet[ExaminedRequest]:
    return ExaminedRequest.objects.exclude(rule__in=rules_in_time(now=now).order_by().values("pk"))
