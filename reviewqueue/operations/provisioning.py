"""Who and what is known here: agents, people, queues, policies, and what owners set for their agents.

Called by `manage.py add_...` and by the demo. Groups are made when missing. A secret is returned once and kept nowhere.
Each function is one transaction; what is there already is refused with a sentence, never changed by the way.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractUser, Group
from django.core.exceptions import ValidationError
from django.core.validators import validate_email, validate_slug
from django.db import transaction

from reviewqueue.operations import kill_switch
from reviewqueue.operations.api_keys import NewKey, make_agent_key, make_personal_token
from reviewqueue.outbound.address_policy import AddressRefused, check_base_url
from reviewqueue.permissions import OPERATORS
from runs.configuration import CHANGED, REMOVED, record_configuration
from runs.models import Agent, CallLabel, Connection, EffectRule, Policy, Queue
from runs.policies import BUILT_IN
from runs.states import EffectMode, OnExpiry, OnReject, Risk, RuleAction

#: Who configures: a command of this machine.
SYSTEM = "system:command"
STAFF_ROLES = {"owner", "operator"}
QUEUE_ROLES = {"reviewer": "reviewers", "lead": "leads", "auditor": "auditors"}
MOST_VOTES = 20
ROLES = (*QUEUE_ROLES, "owner", "operator")

#: What a new version of a policy is copied with; the rest is the new row's own.
POLICY_RULES = (
    "queue",
    "queues",
    "any_queue",
    "deadline_min",
    "deadline_default",
    "deadline_max",
    "on_expiry",
    "on_expiry_allowed",
    "default_may_approve",
    "escalate_to",
    "escalate_wait",
    "escalate_further",
    "remind_before",
    "pause_stops_deadline",
    "then",
    "on_reject",
    "self_review",
    "quorum",
    "risk_floor",
    "permit_ttl",
    "freshness",
    "claim_time",
    "max_rounds",
)

MODE_LABELS = {EffectMode.LISTED: "only effects that a rule names", EffectMode.ANY: "any effect"}

_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")


class NotAdded(Exception):
    """Nothing was added; the message says why."""


@dataclass(frozen=True, kw_only=True)
class AddedPerson:
    """A person with a new role. ``password`` and ``token`` are there for a person who is new, and only now."""

    person: AbstractUser
    group: Group
    password: str | None
    token: str | None


@transaction.atomic
def add_agent(name: str, *, owner: str, effects: str = EffectMode.LISTED) -> tuple[Agent, NewKey]:
    """Add an agent with its first key. ``effects``: may it begin only effects that a rule names, or any?"""
    _check_name(name)
    if name == kill_switch.EVERY:
        raise NotAdded(f"No agent is called {name}: the kill switch means every agent by it.")
    if Agent.objects.filter(slug=name).exists():
        raise NotAdded(f"There is an agent {name} already. A new key for it: manage.py rotate_key")
    agent = Agent.objects.create(slug=name, owner=_group(owner), effect_mode=EffectMode(effects))
    record_configuration(agent, actor=SYSTEM)
    return agent, make_agent_key(agent, name="first key")


@transaction.atomic
def set_effect_mode(agent: str, *, effects: str) -> Agent:
    """Let an agent begin only effects that a rule names (``listed``), or ``any``; effects under way are not touched."""
    of = _find_agent(agent)
    mode = EffectMode(effects)
    if of.effect_mode == mode:
        raise NotAdded(f"{agent} may begin {MODE_LABELS[mode]} already.")
    of.effect_mode = mode
    of.save(update_fields=["effect_mode"])
    record_configuration(of, actor=SYSTEM, action=CHANGED)
    return of


@transaction.atomic
def add_person(address: str, *, role: str, queue: str = "", agent: str = "") -> AddedPerson:
    """Give a person a role, and make the person if nobody has that address yet."""
    address = address.strip().lower()
    try:
        validate_email(address)
    except ValidationError:
        raise NotAdded(f"{address} is no e-mail address.") from None
    group = _group_of_role(role, queue=queue, agent=agent)
    people = get_user_model().objects
    known = people.filter(username=address).first()
    if known is not None and known.groups.filter(pk=group.pk).exists():
        raise NotAdded(f"{address} has this role already.")
    password = None if known else secrets.token_urlsafe(12)
    person = known or people.create_user(username=address, email=address, password=password)
    person.groups.add(group)
    if role in STAFF_ROLES and not person.is_staff:
        person.is_staff = True
        person.save(update_fields=["is_staff"])
    token = None if known else make_personal_token(person, name="first token").text
    return AddedPerson(person=person, group=group, password=password, token=token)


def _group_of_role(role: str, *, queue: str, agent: str) -> Group:
    if role == "operator":
        if queue or agent:
            raise NotAdded("An operator is one everywhere: without --queue and --agent.")
        return _group(OPERATORS)
    if role == "owner":
        if not agent or queue:
            raise NotAdded("An owner is one of an agent: --agent NAME.")
        return _find_agent(agent).owner
    if not queue or agent:
        raise NotAdded(f"A {role} is one of a queue: --queue NAME.")
    found: Group = getattr(_find_queue(queue), QUEUE_ROLES[role])
    return found


@transaction.atomic
def add_queue(name: str, *, owner: str) -> Queue:
    """Add a queue; its reviewers, leads and auditors are three groups named after it."""
    _check_name(name)
    if Queue.objects.filter(slug=name).exists():
        raise NotAdded(f"There is a queue {name} already.")
    roles = {column: _group(f"{name}-{column}") for column in QUEUE_ROLES.values()}
    return Queue.objects.create(slug=name, owner=_group(owner), **roles)


@transaction.atomic
def add_policy(reason: str, *, agent: str = "", **rules: Any) -> Policy:
    """Add the next version of a reason's policy: as the last one, but for ``rules`` (names of queues are looked up).

    The policy binds its queues: a request may name its own and ``queues``. ``any_queue`` must be given:
    it is not inherited from the built-in version.
    """
    if not reason.strip() or len(reason) > 60:
        raise NotAdded("A reason has 1 to 60 characters.")
    of = _find_agent(agent) if agent else None
    last = Policy.objects.filter(reason=reason, agent=of).order_by("-version").first()
    kept = {} if last is None else {name: getattr(last, name) for name in POLICY_RULES}
    if last is not None and (is_built_in(last) or rules.get("queues")):
        rules.setdefault("any_queue", False)
    for name in ("queue", "escalate_to"):
        if isinstance(rules.get(name), str):
            rules[name] = _find_queue(rules[name])
    for name in [*(rules.get("queues") or []), *(step["queue"] for step in rules.get("escalate_further") or [])]:
        _find_queue(name)
    version = 1 if last is None else last.version + 1
    policy = Policy(reason=reason, agent=of, version=version, **(kept | rules))
    _check_policy(policy)
    if last is not None and all(getattr(policy, name) == kept[name] for name in POLICY_RULES):
        raise NotAdded(f"Version {last.version} of the policy of {reason} says exactly that already.")
    policy.save(force_insert=True)
    record_configuration(policy, actor=SYSTEM)
    return policy


def is_built_in(policy: Policy) -> bool:
    """Tell whether the policy came with the installation."""
    return policy.agent_id is None and policy.version == 1 and policy.queue_id is None and policy.reason in BUILT_IN


def _check_policy(policy: Policy) -> None:
    if policy.queue is None:
        raise NotAdded("A policy names the queue where its questions wait: --queue NAME.")
    if policy.any_queue and policy.queues:
        raise NotAdded("Any queue, or a list of queues: --any-queue does not go with --queues.")
    if not policy.deadline_min <= policy.deadline_default <= policy.deadline_max:
        raise NotAdded("The deadlines have to be in order: deadline_min, deadline_default, deadline_max.")
    unknown = sorted({*policy.on_expiry_allowed, policy.on_expiry} - {*OnExpiry.values})
    if unknown:
        raise NotAdded(f"At a deadline there is no {unknown[0]}: {', '.join(OnExpiry.values)}.")
    if policy.on_expiry == OnExpiry.DEFAULT:
        raise NotAdded("The default answer comes with a request, so a policy cannot name it for all of them.")
    if policy.on_expiry == OnExpiry.ESCALATE and policy.escalate_to is None:
        raise NotAdded("Escalating needs the next queue: --escalate-to NAME.")
    if policy.escalate_further and policy.escalate_to is None:
        raise NotAdded("The queues after the next one need the next one: --escalate-to NAME.")
    chain = [
        *([policy.escalate_to.slug] if policy.escalate_to else []),
        *(it["queue"] for it in policy.escalate_further),
    ]
    if len(set(chain)) != len(chain):
        raise NotAdded("A question comes to each queue of an escalation once.")
    if policy.then not in {OnExpiry.CANCEL, OnExpiry.FAIL}:
        raise NotAdded("After the last queue a run is cancelled or failed: --then cancel|fail.")
    if policy.on_reject not in OnReject.values:
        raise NotAdded("A rejection is told to the agent, or cancels the run: --on-reject resume|cancel.")
    if not 1 <= policy.quorum <= MOST_VOTES:
        raise NotAdded(f"A call is approved by 1 to {MOST_VOTES} people.")
    if policy.risk_floor not in Risk.values:
        raise NotAdded(f"A risk is one of: {', '.join(Risk.values)}.")
    if not 1 <= policy.max_rounds <= 100:
        raise NotAdded("A question is asked in 1 to 100 rounds.")


def add_connection(name: str, *, agent: str, url: str, secret: str = "") -> Connection:
    """Add where an agent's facts are looked up. ``secret`` names an environment variable; the secret is not kept here.

    The address is judged now, and again at every call.
    """
    of = _find_agent(agent)
    _check_name(name)
    try:
        check_base_url(url)
    except AddressRefused as refused:
        raise NotAdded(f"A connection's address is http(s)://host[:port][/path]; this one {refused}.") from None
    if secret and not _VARIABLE.fullmatch(secret):
        raise NotAdded("The secret is named by its environment variable, in capitals: --secret ERP_TOKEN.")
    if Connection.objects.filter(agent=of, name=name).exists():
        raise NotAdded(f"{agent} has a connection {name} already.")
    return Connection.objects.create(agent=of, name=name, base_url=url.rstrip("/"), secret=secret)


@transaction.atomic
def add_effect_rule(pattern: str, *, agent: str, reason: str = "") -> EffectRule:
    """Say of the agent's effects whose name fits ``pattern`` that they need an approval for ``reason``, or (empty) none."""
    of = _find_agent(agent)
    if EffectRule.objects.filter(agent=of, name_pattern=pattern).exists():
        raise NotAdded(f"{agent} has a rule for {pattern} already.")
    if reason and not Policy.objects.filter(reason=reason).exists():
        raise NotAdded(f"There is no policy for {reason}: add it first, with manage.py add_policy.")
    action = RuleAction.APPROVAL if reason else RuleAction.ALLOW
    rule = EffectRule.objects.create(agent=of, name_pattern=pattern, action=action, reason=reason)
    record_configuration(rule, actor=SYSTEM)
    return rule


@transaction.atomic
def remove_effect_rule(pattern: str, *, agent: str) -> EffectRule:
    """Remove the rule with exactly this pattern; effects under way are not touched."""
    rule = EffectRule.objects.filter(agent=_find_agent(agent), name_pattern=pattern).select_related("agent").first()
    if rule is None:
        raise NotAdded(f"{agent} has no rule for {pattern}.")
    record_configuration(rule, actor=SYSTEM, action=REMOVED)
    rule.delete()
    return rule


@transaction.atomic
def add_call_label(name: str, *, agent: str, sentence: str, arguments: dict[str, dict[str, str]]) -> CallLabel:
    """Put an agent's call into words; ``arguments`` gives each argument its label and its unit."""
    of = _find_agent(agent)
    if CallLabel.objects.filter(agent=of, name=name).exists():
        raise NotAdded(f"{agent} has words for {name} already.")
    return CallLabel.objects.create(agent=of, name=name, sentence=sentence, arguments=arguments)


def _check_name(name: str) -> None:
    try:
        validate_slug(name)
    except ValidationError:
        name = ""
    if not name or len(name) > 60:
        raise NotAdded("A name has 1 to 60 letters, digits, hyphens and underscores.")


def _group(name: str) -> Group:
    if not name.strip() or len(name) > 150:
        raise NotAdded("A group's name has 1 to 150 characters.")
    return Group.objects.get_or_create(name=name)[0]


def _find_agent(name: str) -> Agent:
    agent = Agent.objects.select_related("owner").filter(slug=name).first()
    if agent is None:
        raise NotAdded(f"There is no agent {name}: add it first, with manage.py add_agent.")
    return agent


def _find_queue(name: str) -> Queue:
    queue = Queue.objects.select_related("reviewers", "leads", "auditors").filter(slug=name).first()
    if queue is None:
        raise NotAdded(f"There is no queue {name}: add it first, with manage.py add_queue.")
    return queue
