"""Agents with what owners configure for them: effect mode, effect rules and call labels."""

from __future__ import annotations

from collections.abc import Sequence

from django.db import transaction
from django.utils.translation import gettext_noop

from reviewqueue.operations import audit_log, kill_switch
from reviewqueue.operations.api_keys import SCOPES, NewKey
from reviewqueue.operations.installation import PROGRAM
from reviewqueue.operations.provisioning.keys import add_agent_key
from reviewqueue.operations.provisioning.names import (
    SYSTEM,
    ProvisioningError,
    check_name,
    find_agent,
    find_or_add_group,
)
from reviewqueue.operations.provisioning.people import give_reconciliation, lock_members
from runs.configuration_history import CHANGED, REMOVED, lock_head, record_configuration
from runs.models import Agent, CallLabel, EffectRule, Policy
from runs.states import EffectMode, RuleAction

MODE_LABELS = {
    EffectMode.LISTED: gettext_noop("only effects with an effect rule"),
    EffectMode.ANY: gettext_noop("any effect"),
}


@transaction.atomic
def add_agent(
    name: str,
    *,
    owner: str,
    effects: str = EffectMode.LISTED,
    scopes: Sequence[str] = SCOPES,
    actor: str = SYSTEM,
) -> tuple[Agent, NewKey]:
    """Add an agent with its first key. ``effects`` is an ``EffectMode``."""
    members = lock_members(owner)
    lock_head()
    check_name(name)
    if name == kill_switch.ALL_AGENTS:
        raise ProvisioningError(f"An agent cannot have the name {name}: for the kill switch it means every agent.")
    if name in ("add", "me"):
        raise ProvisioningError(f"An agent cannot have the name {name}: an address of a page or of the API has it.")
    if Agent.objects.filter(slug=name).exists():
        raise ProvisioningError(f"Agent {name} exists already.", hint=f"For a new key: {PROGRAM} rotate_key")
    agent = Agent.objects.create(slug=name, owner=find_or_add_group(owner), effect_mode=EffectMode(effects))
    audit_log.record(agent, actor=actor)
    record_configuration(agent, actor=actor)
    give_reconciliation(members, actor=actor)
    return agent, add_agent_key(name, scopes=scopes, name="first key", actor=actor)


@transaction.atomic
def set_effect_mode(agent: str, *, effects: str, actor: str = SYSTEM) -> Agent:
    """Let an agent begin only effects with an effect rule (``listed``), or ``any``. Effects under way are not affected."""
    lock_head()
    of = find_agent(agent)
    mode = EffectMode(effects)
    if of.effect_mode == mode:
        raise ProvisioningError(f"{agent} may begin {MODE_LABELS[mode]} already.")
    of.effect_mode = mode
    of.save(update_fields=["effect_mode"])
    record_configuration(of, actor=actor, action=CHANGED)
    return of


@transaction.atomic
def add_effect_rule(pattern: str, *, agent: str, reason: str = "", actor: str = SYSTEM) -> EffectRule:
    """Require an approval for ``reason`` for effects whose name matches ``pattern``; without a reason allow them freely."""
    lock_head()
    of = find_agent(agent)
    if EffectRule.objects.filter(agent=of, name_pattern=pattern).exists():
        raise ProvisioningError(f"Agent {agent} has a rule for {pattern} already.")
    if reason and not Policy.objects.filter(reason=reason).exists():
        raise ProvisioningError(f"There is no policy for {reason}.", hint=f"Add it first: {PROGRAM} add_policy")
    action = RuleAction.APPROVAL if reason else RuleAction.ALLOW
    rule = EffectRule.objects.create(agent=of, name_pattern=pattern, action=action, reason=reason)
    record_configuration(rule, actor=actor)
    return rule


@transaction.atomic
def remove_effect_rule(pattern: str, *, agent: str, actor: str = SYSTEM) -> EffectRule:
    """Remove the rule with exactly this pattern. Effects under way are not affected."""
    lock_head()
    rule = EffectRule.objects.filter(agent=find_agent(agent), name_pattern=pattern).select_related("agent").first()
    if rule is None:
        raise ProvisioningError(f"Agent {agent} has no rule for {pattern}.")
    record_configuration(rule, actor=actor, action=REMOVED)
    rule.delete()
    return rule


@transaction.atomic
def add_call_label(
    name: str, *, agent: str, sentence: str, arguments: dict[str, dict[str, str]], actor: str = SYSTEM
) -> CallLabel:
    """Add a readable sentence for an agent's call, and a label and unit for its arguments."""
    lock_head()
    of = find_agent(agent)
    if CallLabel.objects.filter(agent=of, name=name).exists():
        raise ProvisioningError(f"Agent {agent} has a label for {name} already.")
    label = CallLabel.objects.create(agent=of, name=name, sentence=sentence, arguments=arguments)
    audit_log.record(label, actor=actor)
    return label
