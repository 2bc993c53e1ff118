"""Effect rules: which effects an agent can begin, which need an approval, and the permit that allows an exact call.

The agent chooses an effect's name, so rules compare names as a reader would (``ledger.effect_names``). Nothing is
written here.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import OuterRef, QuerySet, Value

from ledger.effect_names import is_confusable_with, is_exact_name, matches_pattern
from ledger.errors import ConfusableName
from ledger.models import Effect
from ledger.prepared_queries import prepared
from runs.configuration_history import effects_content, recorded_effects
from runs.errors import ApprovalRequired, CallNotApproved, EffectNotAllowed, PermitExpired, RecordChanged
from runs.models import Agent, CallLabel, EffectRule, Permit, Run
from runs.permits import approves_for, check_permit, find_permit, find_permit_of_other_call, list_valid_permits
from runs.revocation import AUTHORITY_LOST, LostApproval, StillMayDecide, find_lost_approval, revoked_approval_refusal
from runs.states import EffectMode, RuleAction


@dataclass(frozen=True, kw_only=True)
class RequestedCall:
    """The requested call, completed from its permit or from the recorded effect, and the permit that was named."""

    key: str
    call: dict[str, Any]
    digest: str
    permit: Permit | None


def find_approval(
    run: Run, asked: RequestedCall, *, known: Effect | None, still_may_decide: StillMayDecide, now: datetime
) -> Permit | LostApproval | None:
    """Return the permit that lets the effect begin; ``None`` if none is needed and none was named.

    ``LostApproval``: a permit would allow it, but a person behind it lost the permission, and there is no other one.

    A named permit is the only candidate. Without a name it is the one with which the key was begun, else any valid one
    of the same call. Under a rule only an approval for the rule's own reason counts, because the agent chose the
    reason, and so the policy, of its request.
    """
    rule = find_approval_rule(run.agent, asked.call["name"])
    reason = rule.reason if rule else ""
    if asked.permit is not None:
        _refuse_revoked(asked.permit)
        check_permit(run, asked.permit, key=asked.key, call_digest=asked.digest, now=now)
        if not approves_for(asked.permit, reason):
            raise approval_required(reason)
        return find_lost_approval(asked.permit, still_may_decide) or asked.permit
    own_permit = find_permit(run, known.permit_ref) if known and known.permit_ref else None
    if rule is None and own_permit is None:
        return None
    if own_permit is not None and not approves_for(own_permit, reason):
        own_permit = None
    lost: LostApproval | None = None
    if own_permit is not None and own_permit.void_at is None and own_permit.valid_until > now:
        lost = find_lost_approval(own_permit, still_may_decide)
        if lost is None:
            return own_permit
    for permit in list_valid_permits(run, key=asked.key, call_digest=asked.digest, reason=reason, now=now):
        if lost is not None and permit.pk == lost.permit.pk:
            continue
        found = find_lost_approval(permit, still_may_decide)
        if found is None:
            return permit
        lost = lost or found
    if lost is not None:
        return lost
    if own_permit is not None:
        _refuse_revoked(own_permit)
        raise PermitExpired(permit=own_permit.public_id)
    otherwise = find_permit_of_other_call(run, name=asked.call["name"], reason=reason, now=now)
    if otherwise is not None:
        raise CallNotApproved(permit=otherwise.public_id, approved=otherwise.digest, asked=asked.digest)
    raise approval_required(reason)


def _refuse_revoked(permit: Permit) -> None:
    if permit.void_reason == AUTHORITY_LOST:
        raise revoked_approval_refusal(permit.decision.interrupt.reason)


def approval_required(reason: str) -> ApprovalRequired:
    """Return the refusal that names the required reason."""
    return ApprovalRequired(f"This effect needs a person's approval first, for the reason {reason}.", reason=reason)


def find_approval_rule(agent: Agent, name: str) -> Rule | None:
    """Return the rule by which this effect needs an approval; ``None`` if it can begin without one.

    Raises ``EffectNotAllowed`` if the agent is limited to listed effects and no rule names this one, ``ConfusableName``
    for a near spelling of a name that a rule or a call label has, and ``RecordChanged`` if the agent's rules or mode
    differ from their record.
    """
    mode, named = _mode_and_named(agent)
    rule = _closest(agent, name, named)
    if rule is None and mode == EffectMode.LISTED:
        raise EffectNotAllowed(f"No effect rule of {agent.slug} names {name}. Its owner can add one.", name=name)
    return rule if rule is not None and rule.action == RuleAction.APPROVAL else None


@dataclass(frozen=True, kw_only=True)
class Rule:
    """An effect rule of the agent, or (action ``LABEL``) the name of one of its call labels."""

    pattern: str
    action: str
    reason: str

    @property
    def is_exact(self) -> bool:
        return self.action == LABEL or is_exact_name(self.pattern)


def _mode_and_named(agent: Agent) -> tuple[str, list[Rule]]:
    """Return the agent's effect mode, and its rules and labels.

    Raises ``RecordChanged`` where the mode or the rules differ from the newest configuration record.
    """
    mode, recorded, named = "", None, []
    for pattern, action, reason in _rules_labels_and_mode.all(agent=agent.pk):
        if action == MODE:
            mode, recorded = pattern, reason
        else:
            named.append(Rule(pattern=pattern, action=action, reason=reason))
    rules = [(rule.pattern, rule.action, rule.reason) for rule in named if rule.action != LABEL]
    if recorded is None or json.loads(recorded) != effects_content(mode, rules):
        raise RecordChanged(record=f"effect rules of {agent.slug}")
    return mode, named


def _closest(agent: Agent, name: str, named: list[Rule]) -> Rule | None:
    """Return the closest rule of this name: an exact name first, then the longest pattern, then the stricter action.

    Case, blanks, full width and invisible characters do not evade a rule. A name that is only near a closer rule
    (``issue-order`` beside ``issue_order``) raises ``ConfusableName``.
    """
    fitting = [rule for rule in named if matches_pattern(name, rule.pattern)]
    found = max((rule for rule in fitting if rule.action != LABEL), key=_closeness, default=None)
    if found is not None and found.is_exact:
        return found
    near = [rule for rule in named if rule not in fitting and is_confusable_with(name, rule.pattern)]
    closest = max(near, key=_closeness, default=None)
    if closest is not None and (found is None or _closeness(closest) >= _closeness(found)):
        raise ConfusableName(
            f"{name} can be confused with {closest.pattern}, which the owner of {agent.slug} has configured. "
            "Use exactly that name, or a different one.",
            rule=closest.pattern,
        )
    return found


#: Instead of an action, the query below has LABEL for a call label, and MODE for the effect mode and its record.
LABEL, MODE = "label", "mode"


#: statement.
@prepared
def _rules_labels_and_mode(agent: int) -> QuerySet[Any, tuple[Any, ...]]:
    rules = EffectRule.objects.filter(agent=agent).values_list("name_pattern", "action", "reason")
    labels = CallLabel.objects.filter(agent=agent).values_list("name", Value(LABEL), Value(""))
    mode = Agent.objects.filter(pk=agent).values_list("effect_mode", Value(MODE), recorded_effects(OuterRef("pk")))
    return rules.union(labels, mode, all=True)


def _closeness(rule: Rule) -> tuple[bool, int, bool, str]:
    return rule.is_exact, len(rule.pattern), rule.action == RuleAction.APPROVAL, rule.pattern
