"""Create agents, people, queues, policies, and what owners configure for their agents.

Missing groups are created. A secret is returned once and stored nowhere. Each function is one transaction, and refuses what
exists already with ``ProvisioningError``. It first locks the head of the audit log, so that two changes at once do not both
find that nothing exists; only accounts of people are locked before it.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypedDict, Unpack

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractUser, Group
from django.core.exceptions import ValidationError
from django.core.validators import validate_email, validate_slug
from django.db import transaction

from ledger import clock
from ledger.public_ids import new_id
from ledger.transactions import assert_no_transaction
from reviewqueue.accounts import second_factors
from reviewqueue.models import ApiKey, ChatChannel, PersonChange
from reviewqueue.notifications.account_mail import create_account_notification
from reviewqueue.notifications.kinds import NotificationKind
from reviewqueue.operations import api_keys, audit_log, kill_switch
from reviewqueue.operations.api_keys import SCOPES, NewKey, create_agent_key, create_personal_token
from reviewqueue.operations.installation import PROGRAM
from reviewqueue.outbound.address_policy import AddressRefused, check_base_url
from reviewqueue.outbound.http_client import TOTAL_SECONDS, CallDeadline, OutOfTime
from reviewqueue.permissions import OPERATORS
from runs.configuration_history import (
    CHANGED,
    REMOVED,
    Subject,
    lock_head,
    record_administration,
    record_configuration,
)
from runs.models import Agent, CallLabel, Connection, EffectRule, Policy, Queue
from runs.policies import BUILT_IN, MAX_DEADLINE
from runs.states import EffectMode, OnExpiry, OnReject, Risk, RuleAction, SecondFactor

#: The actor of records in the audit log: a command on this machine.
SYSTEM = "system:command"
MAX_URL_LENGTH = 500  # of a connection
FIRST_OWNERS = "owners"
STAFF_ROLES = {"owner", "operator"}
RECONCILIATION_GIVEN = "reconciliation given"
QUEUE_ROLES = {"reviewer": "reviewers", "lead": "leads", "auditor": "auditors"}
MAX_QUORUM = 20
MIN_EXPIRY, MAX_EXPIRY = timedelta(minutes=1), timedelta(days=3650)
MAX_OVERLAP = timedelta(days=90)
MAX_VARIABLE_LENGTH = 100
MAX_KEY_NAME_LENGTH = 100
ROLES = (*QUEUE_ROLES, "owner", "operator")

#: The fields that a new version of a policy copies from the last one.
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
    "require_reason",
    "second_factor",
    "self_review",
    "quorum",
    "risk_floor",
    "permit_ttl",
    "freshness",
    "claim_time",
    "max_rounds",
    "expire_paused",
    "expire_blocked",
    "expire_revalidating",
)


class PolicyRules(TypedDict, total=False):
    """Values for `POLICY_RULES`; queues are given by name."""

    queue: str
    queues: list[str]
    any_queue: bool
    deadline_min: timedelta
    deadline_default: timedelta
    deadline_max: timedelta
    on_expiry: str
    on_expiry_allowed: list[str]
    default_may_approve: bool
    escalate_to: str
    escalate_wait: timedelta
    escalate_further: list[dict[str, Any]]
    remind_before: list[int]
    pause_stops_deadline: bool
    then: str
    on_reject: str
    require_reason: bool
    second_factor: str
    self_review: bool
    quorum: int
    risk_floor: str
    permit_ttl: timedelta
    freshness: timedelta
    claim_time: timedelta
    max_rounds: int
    expire_paused: timedelta
    expire_blocked: timedelta
    expire_revalidating: timedelta


MODE_LABELS = {EffectMode.LISTED: "only effects with an effect rule", EffectMode.ANY: "any effect"}

_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")


class ProvisioningError(Exception):
    """Nothing was changed. The message is a sentence for the operator."""


@dataclass(frozen=True, kw_only=True)
class AddedPerson:
    """A person with a new role. ``password`` and ``token`` are set only for a new person, and cannot be read later."""

    person: AbstractUser
    group: Group
    password: str | None
    token: str | None
    is_invited: bool = False


@dataclass(frozen=True, kw_only=True)
class FirstSetup:
    """What ``set_up`` created. The secrets cannot be read later."""

    administrator: AddedPerson
    queue: Queue
    agent: Agent
    agent_key: NewKey


@transaction.atomic
def set_up(address: str, *, queue: str, agent: str) -> FirstSetup:
    """Create the first administrator, the first queue with the policy for approvals, and the first agent, or nothing.

    The administrator is an operator, owns queue and agent, leads the queue, and manages people in the admin site.
    """
    if get_user_model().objects.exists() or Queue.objects.exists() or Agent.objects.exists():
        raise ProvisioningError(
            f"This installation has people, queues or agents already. Add more: {PROGRAM} add_person, add_queue, add_agent"
        )
    made_queue = add_queue(queue, owner=FIRST_OWNERS)
    add_policy("approval.action", queue=queue)
    made_agent, key = add_agent(agent, owner=FIRST_OWNERS)
    administrator = add_person(address, role="operator")
    add_person(address, role="owner", agent=agent)
    add_person(address, role="lead", queue=queue)
    administrator.person.is_superuser = True
    administrator.person.is_staff = True
    before = account_state(administrator.person) | {"superuser": False}
    administrator.person.save(update_fields=["is_superuser", "is_staff"])
    record_change(administrator.person, actor=SYSTEM, action="made superuser", before=before)
    return FirstSetup(administrator=administrator, queue=made_queue, agent=made_agent, agent_key=key)


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
    _check_name(name)
    if name == kill_switch.ALL_AGENTS:
        raise ProvisioningError(f"An agent cannot have the name {name}: for the kill switch it means every agent.")
    if name in ("add", "me"):
        raise ProvisioningError(f"An agent cannot have the name {name}: an address of a page or of the API has it.")
    if Agent.objects.filter(slug=name).exists():
        raise ProvisioningError(f"Agent {name} exists already. For a new key: {PROGRAM} rotate_key")
    agent = Agent.objects.create(slug=name, owner=find_or_add_group(owner), effect_mode=EffectMode(effects))
    audit_log.record(agent, actor=actor)
    record_configuration(agent, actor=actor)
    give_reconciliation(members, actor=actor)
    return agent, add_agent_key(name, scopes=scopes, name="first key", actor=actor)


@transaction.atomic
def add_agent_key(
    agent: str, *, scopes: Sequence[str], name: str = "", expires_at: datetime | None = None, actor: str = SYSTEM
) -> NewKey:
    """Add a key of an agent, for example one that can only send signals."""
    unknown = [scope for scope in scopes if scope not in SCOPES]
    if unknown or not scopes:
        raise ProvisioningError(f"A key must have one or more of the scopes {', '.join(SCOPES)}.")
    if len(name) > MAX_KEY_NAME_LENGTH:
        raise ProvisioningError(f"The name of a key must have at most {MAX_KEY_NAME_LENGTH} characters.")
    if expires_at is not None and expires_at <= clock.now():
        raise ProvisioningError("The expiry of a key must be in the future.")
    ordered = tuple(scope for scope in SCOPES if scope in scopes)
    made = create_agent_key(_find_agent(agent), name=name, scopes=ordered, expires_at=expires_at)
    audit_log.record(made.key, actor=actor)
    return made


@transaction.atomic
def rotate_key(key_pk: int, *, overlap: timedelta, expires_at: datetime | None = None, actor: str = SYSTEM) -> NewKey:
    """Replace a valid key by a new one with the same name and scopes. The old key expires after ``overlap``."""
    if not timedelta(0) <= overlap <= MAX_OVERLAP:
        raise ProvisioningError(f"The overlap must be at most {MAX_OVERLAP.days} days.")
    lock_head()
    old = _lock_key(key_pk)
    now = clock.now()
    if old.revoked_at is not None or (old.expires_at is not None and old.expires_at <= now):
        raise ProvisioningError("There is no such key, or it is revoked or expired.")
    if expires_at is not None and expires_at <= now + overlap:
        raise ProvisioningError("The new key must expire after the old one.")
    before = audit_log.state_of(old)
    made = api_keys.rotate_key(old, overlap=overlap, expires_at=expires_at)
    old.refresh_from_db(fields=["expires_at"])
    audit_log.record(old, actor=actor, action="rotated", before=before)
    audit_log.record(made.key, actor=actor)
    return made


@transaction.atomic
def revoke_key(key_pk: int, *, actor: str = SYSTEM) -> ApiKey:
    """Revoke a key at once. A long poll of the key ends with 401."""
    lock_head()
    key = _lock_key(key_pk)
    before = audit_log.state_of(key)
    if not api_keys.revoke_key(key):
        raise ProvisioningError("This key was revoked before.")
    key.refresh_from_db(fields=["revoked_at"])
    audit_log.record(key, actor=actor, action="revoked", before=before)
    return key


def _lock_key(key_pk: int) -> ApiKey:
    return ApiKey.objects.select_for_update(of=("self",), no_key=True).select_related("agent", "person").get(pk=key_pk)


@transaction.atomic
def set_effect_mode(agent: str, *, effects: str, actor: str = SYSTEM) -> Agent:
    """Let an agent begin only effects with an effect rule (``listed``), or ``any``. Effects under way are not affected."""
    lock_head()
    of = _find_agent(agent)
    mode = EffectMode(effects)
    if of.effect_mode == mode:
        raise ProvisioningError(f"{agent} may begin {MODE_LABELS[mode]} already.")
    of.effect_mode = mode
    of.save(update_fields=["effect_mode"])
    record_configuration(of, actor=actor, action=CHANGED)
    return of


@transaction.atomic
def add_person(
    address: str, *, role: str, queue: str = "", agent: str = "", invite: bool = False, actor: str = SYSTEM
) -> AddedPerson:
    """Give a person a role, and create the person if the address is new. A role of owners gives access to reconciliation,
    also to a person who is in the group already.

    ``invite``: a new person gets a mail with a link to choose a password, instead of a password and a token.
    """
    address = address.strip().lower()
    try:
        validate_email(address)
    except ValidationError:
        raise ProvisioningError(f"{address} is not an e-mail address.") from None
    people = get_user_model().objects
    known = people.select_for_update(of=("self",), no_key=True).filter(username=address).first()
    lock_head()
    known = known or people.filter(username=address).first()  # added while this transaction waited
    group = group_of_role(role, queue=queue, agent=agent)
    has_role = known is not None and known.groups.filter(pk=group.pk).exists()
    if known is not None and has_role and (known.is_staff or role not in STAFF_ROLES):
        raise ProvisioningError(f"{address} has this role already.")
    if invite and not settings.EMAIL_HOST:
        raise ProvisioningError("This installation sends no mail, because EMAIL_HOST is not set.")
    before = {} if known is None else account_state(known)
    password = None if known or invite else secrets.token_urlsafe(12)
    person = known or people.create_user(username=address, email=address, password=password)
    person.groups.add(group)
    if role in STAFF_ROLES and not person.is_staff:
        person.is_staff = True
        person.save(update_fields=["is_staff"])
    token = None if known or invite else create_personal_token(person, name="first token")
    action = RECONCILIATION_GIVEN if has_role else "role added" if known else "added"
    record_change(person, actor=actor, action=action, before=before)
    if token is not None:
        audit_log.record(token.key, actor=actor)
    if invite and known is None:
        create_account_notification(person, NotificationKind.INVITED)
    return AddedPerson(
        person=person,
        group=group,
        password=password,
        token=None if token is None else token.text,
        is_invited=invite and known is None,
    )


def lock_members(group: str) -> list[AbstractUser]:
    """Lock and return the active members of a group who have no access to reconciliation.

    Changes of an account lock it before the head of the audit log, so this does too.
    """
    members = get_user_model().objects.filter(groups__name=group, is_active=True, is_staff=False).order_by("pk")
    return list(members.select_for_update(of=("self",), no_key=True))


def give_reconciliation(people: list[AbstractUser], *, actor: str) -> None:
    """Give access to reconciliation to people whose group owns an agent now."""
    for person in people:
        before = account_state(person)
        person.is_staff = True
        person.save(update_fields=["is_staff"])
        record_change(person, actor=actor, action=RECONCILIATION_GIVEN, before=before)


def account_state(person: AbstractUser) -> dict[str, Any]:
    """Return what a record of a change shows: whether the account is active, its second factors and its groups."""
    return {
        "active": person.is_active,
        "reconciliation": person.is_staff,
        "superuser": person.is_superuser,
        "second_factors": second_factors.factors_of([person.pk]).get(person.pk, []),
        "groups": list(person.groups.order_by("name").values_list("name", flat=True)),
    }


@transaction.atomic
def record_change(person: AbstractUser, *, actor: str, action: str, before: dict[str, Any]) -> None:
    """Record a change of a person's account with the state before and after, also in the audit log."""
    after = account_state(person)
    PersonChange.objects.create(
        person_id=person.pk, actor=actor[:300], action=action, before=before, after=after, at=clock.now()
    )
    subject = Subject(kind="person", pk=person.pk, name=person.get_username())
    record_administration(subject, actor=actor, action=action, before=before or None, after=after)


def group_of_role(role: str, *, queue: str, agent: str) -> Group:
    """Return the group that gives a role of a queue or agent. Raises ``ProvisioningError``."""
    if role == "operator":
        if queue or agent:
            raise ProvisioningError("The role operator applies everywhere: omit --queue and --agent.")
        return find_or_add_group(OPERATORS)
    if role == "owner":
        if not agent or queue:
            raise ProvisioningError("The role owner needs an agent and no queue: --agent NAME.")
        return _find_agent(agent).owner
    if not queue or agent:
        raise ProvisioningError(f"The role {role} needs a queue and no agent: --queue NAME.")
    found: Group = getattr(_find_queue(queue), QUEUE_ROLES[role])
    return found


@transaction.atomic
def add_queue(name: str, *, owner: str, actor: str = SYSTEM) -> Queue:
    """Add a queue, and the groups of its reviewers, leads and auditors."""
    lock_head()
    _check_name(name)
    if Queue.objects.filter(slug=name).exists():
        raise ProvisioningError(f"Queue {name} exists already.")
    roles = {column: find_or_add_group(f"{name}-{column}") for column in QUEUE_ROLES.values()}
    queue = Queue.objects.create(slug=name, owner=find_or_add_group(owner), **roles)
    audit_log.record(queue, actor=actor)
    return queue


@dataclass(frozen=True, kw_only=True)
class DraftPolicy:
    """A policy version that is not stored, the version before it (``None``: the first one), and the rules that differ."""

    policy: Policy
    last: Policy | None
    changed: list[str]


@transaction.atomic
def add_policy(reason: str, *, agent: str = "", actor: str = SYSTEM, **changes: Unpack[PolicyRules]) -> Policy:
    """Add the next version of a reason's policy: the last version with ``changes``. Queues are given by name.

    A request can name the policy's own queue and ``queues``. ``any_queue`` is not inherited from the built-in version.
    """
    lock_head()
    draft = draft_policy(reason, agent=agent, **changes)
    if draft.last is not None and not draft.changed:
        raise ProvisioningError(
            f"Version {draft.last.version} of the policy of {reason} has exactly these rules already."
        )
    draft.policy.save(force_insert=True)
    record_configuration(draft.policy, actor=actor)
    return draft.policy


def draft_policy(reason: str, *, agent: str = "", **changes: Unpack[PolicyRules]) -> DraftPolicy:
    """Return the version that ``add_policy`` would store."""
    if not reason.strip() or len(reason) > 60:
        raise ProvisioningError("A reason must have 1 to 60 characters.")
    of = _find_agent(agent) if agent else None
    rules: dict[str, Any] = {**changes}
    last = Policy.objects.filter(reason=reason, agent=of).order_by("-version").first()
    inherited = {} if last is None else {name: getattr(last, name) for name in POLICY_RULES}
    if last is not None and (is_built_in(last) or rules.get("queues")):
        rules.setdefault("any_queue", False)
    for name in ("queue", "escalate_to"):
        if isinstance(rules.get(name), str):
            rules[name] = _find_queue(rules[name])
    for name in [*(rules.get("queues") or []), *(step["queue"] for step in rules.get("escalate_further") or [])]:
        _find_queue(name)
    version = 1 if last is None else last.version + 1
    policy = Policy(reason=reason, agent=of, version=version, **(inherited | rules))
    _check_policy(policy)
    before: Any = last or Policy()
    changed = [name for name in POLICY_RULES if getattr(policy, name) != getattr(before, name)]
    return DraftPolicy(policy=policy, last=last, changed=changed)


def is_built_in(policy: Policy) -> bool:
    """Return whether the policy is one of those created by the migrations."""
    return policy.agent_id is None and policy.version == 1 and policy.queue_id is None and policy.reason in BUILT_IN


def _check_policy(policy: Policy) -> None:
    if policy.queue is None:
        raise ProvisioningError("A policy must have a queue for its requests: --queue NAME.")
    if policy.any_queue and policy.queues:
        raise ProvisioningError(
            "A policy allows any queue or a list of queues, not both: --any-queue excludes --queues."
        )
    _check_durations(policy)
    if not policy.deadline_min <= policy.deadline_default <= policy.deadline_max:
        raise ProvisioningError("The deadlines must be in order: deadline_min, deadline_default, deadline_max.")
    unknown = sorted({*policy.on_expiry_allowed, policy.on_expiry} - {*OnExpiry.values})
    if unknown:
        raise ProvisioningError(f"on_expiry must be one of {', '.join(OnExpiry.values)} (got {unknown[0]}).")
    if policy.on_expiry == OnExpiry.DEFAULT:
        raise ProvisioningError("A policy's on_expiry cannot be default: each request brings its own default answer.")
    if policy.on_expiry == OnExpiry.ESCALATE and policy.escalate_to is None:
        raise ProvisioningError("To escalate, a policy needs the next queue: --escalate-to NAME.")
    if policy.escalate_further and policy.escalate_to is None:
        raise ProvisioningError("--escalate-further needs the first escalation queue: --escalate-to NAME.")
    chain = [
        *([policy.escalate_to.slug] if policy.escalate_to else []),
        *(it["queue"] for it in policy.escalate_further),
    ]
    if len(set(chain)) != len(chain):
        raise ProvisioningError("An escalation can name each queue only once.")
    if policy.then not in {OnExpiry.CANCEL, OnExpiry.FAIL}:
        raise ProvisioningError("After the last queue the run is cancelled or failed: --then must be cancel or fail.")
    if policy.on_reject not in OnReject.values:
        raise ProvisioningError(
            "After a rejection the run continues or is cancelled: --on-reject must be resume or cancel."
        )
    if policy.second_factor not in SecondFactor.values:
        raise ProvisioningError(f"second_factor must be one of {', '.join(SecondFactor.values)}.")
    if not 1 <= policy.quorum <= MAX_QUORUM:
        raise ProvisioningError(f"quorum must be from 1 to {MAX_QUORUM}.")
    if policy.risk_floor not in Risk.values:
        raise ProvisioningError(f"risk_floor must be one of {', '.join(Risk.values)}.")
    for name in ("expire_paused", "expire_blocked", "expire_revalidating"):
        if not MIN_EXPIRY <= getattr(policy, name) <= MAX_EXPIRY:
            raise ProvisioningError(f"{name} must be from 1 minute to 3650 days.")
    if not 1 <= policy.max_rounds <= 100:
        raise ProvisioningError("max_rounds must be from 1 to 100.")


def _check_durations(policy: Policy) -> None:
    """Refuse durations that the arithmetic of times cannot add to a time, so that no later call or sweep fails."""
    durations = [(name, getattr(policy, name)) for name in POLICY_RULES if not name.startswith("expire_")]
    durations += [("remind_before", timedelta(seconds=seconds)) for seconds in policy.remind_before]
    durations += [("escalate_further", timedelta(seconds=step["seconds"])) for step in policy.escalate_further]
    for name, length in durations:
        limit = MAX_DEADLINE if name.startswith("deadline_") else MAX_EXPIRY
        if isinstance(length, timedelta) and length > limit:
            raise ProvisioningError(f"{name} must be at most {limit.days} days.")


def add_connection(name: str, *, agent: str, url: str, secret: str = "", actor: str = SYSTEM) -> Connection:
    """Add a connection for fetching an agent's facts. ``secret`` names an environment variable; the secret is not stored.

    The address is checked now and again at every call.
    """
    _find_agent(agent)
    check_connection(name, url=url, secret=secret)
    return insert_connection(name, agent=agent, url=url, secret=secret, actor=actor)


def check_connection(name: str, *, url: str, secret: str) -> None:
    """Check what ``insert_connection`` stores. The host is resolved, which takes seconds: not in a transaction."""
    assert_no_transaction()
    _check_name(name)
    if secret and not _VARIABLE.fullmatch(secret):
        raise ProvisioningError(
            "--secret must be the name of an environment variable, in capitals: --secret ERP_TOKEN."
        )
    if len(url) > MAX_URL_LENGTH:
        raise ProvisioningError(f"A connection's URL must have at most {MAX_URL_LENGTH} characters.")
    try:
        CallDeadline(TOTAL_SECONDS).within(lambda: check_base_url(url))
    except AddressRefused as refused:
        raise ProvisioningError(
            f"A connection's URL must be http(s)://host[:port][/path]; this one {refused}."
        ) from None
    except OutOfTime:
        raise ProvisioningError("The host of the connection's URL was not resolved in time.") from None


@transaction.atomic
def insert_connection(name: str, *, agent: str, url: str, secret: str, actor: str) -> Connection:
    """Store a connection that was checked by ``check_connection``."""
    lock_head()
    of = _find_agent(agent)
    if Connection.objects.filter(agent=of, name=name).exists():
        raise ProvisioningError(f"Agent {agent} has a connection {name} already.")
    connection = Connection.objects.create(agent=of, name=name, base_url=url.rstrip("/"), secret=secret)
    audit_log.record(connection, actor=actor)
    return connection


@transaction.atomic
def add_effect_rule(pattern: str, *, agent: str, reason: str = "", actor: str = SYSTEM) -> EffectRule:
    """Require an approval for ``reason`` for effects whose name matches ``pattern``; without a reason allow them freely."""
    lock_head()
    of = _find_agent(agent)
    if EffectRule.objects.filter(agent=of, name_pattern=pattern).exists():
        raise ProvisioningError(f"Agent {agent} has a rule for {pattern} already.")
    if reason and not Policy.objects.filter(reason=reason).exists():
        raise ProvisioningError(f"There is no policy for {reason}. Add it first: {PROGRAM} add_policy")
    action = RuleAction.APPROVAL if reason else RuleAction.ALLOW
    rule = EffectRule.objects.create(agent=of, name_pattern=pattern, action=action, reason=reason)
    record_configuration(rule, actor=actor)
    return rule


@transaction.atomic
def remove_effect_rule(pattern: str, *, agent: str, actor: str = SYSTEM) -> EffectRule:
    """Remove the rule with exactly this pattern. Effects under way are not affected."""
    lock_head()
    rule = EffectRule.objects.filter(agent=_find_agent(agent), name_pattern=pattern).select_related("agent").first()
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
    of = _find_agent(agent)
    if CallLabel.objects.filter(agent=of, name=name).exists():
        raise ProvisioningError(f"Agent {agent} has a label for {name} already.")
    label = CallLabel.objects.create(agent=of, name=name, sentence=sentence, arguments=arguments)
    audit_log.record(label, actor=actor)
    return label


def _check_name(name: str) -> None:
    try:
        validate_slug(name)
    except ValidationError:
        name = ""
    if not name or len(name) > 60:
        raise ProvisioningError("A name must have 1 to 60 letters, digits, hyphens or underscores.")


def find_or_add_group(name: str) -> Group:
    """Return the group of this name."""
    if not name.strip() or len(name) > 150:
        raise ProvisioningError("A group's name must have 1 to 150 characters.")
    return Group.objects.get_or_create(name=name)[0]


def _find_agent(name: str) -> Agent:
    agent = Agent.objects.select_related("owner").filter(slug=name).first()
    if agent is None:
        raise ProvisioningError(f"There is no agent {name}. Add it first: {PROGRAM} add_agent")
    return agent


def _find_queue(name: str) -> Queue:
    queue = Queue.objects.select_related("reviewers", "leads", "auditors").filter(slug=name).first()
    if queue is None:
        raise ProvisioningError(f"There is no queue {name}. Add it first: {PROGRAM} add_queue")
    return queue


@transaction.atomic
def add_chat_channel(queue: str, *, variable: str, min_risk: str, actor: str = SYSTEM) -> ChatChannel:
    """Notify a chat channel about a queue. Its Apprise URL is in the environment variable ``variable`` of the workers."""
    lock_head()
    if not _VARIABLE.fullmatch(variable) or len(variable) > MAX_VARIABLE_LENGTH:
        raise ProvisioningError(f"{variable} is not the name of an environment variable, such as CHAT_ENGINEERING.")
    of = _find_queue(queue)
    if ChatChannel.objects.filter(queue=of, variable=variable, removed_at=None).exists():
        raise ProvisioningError(f"Queue {queue} has the chat channel {variable} already.")
    channel = ChatChannel.objects.create(
        public_id=new_id("cht"), queue=of, variable=variable, min_risk=min_risk, created_at=clock.now()
    )
    audit_log.record(channel, actor=actor)
    return channel


@transaction.atomic
def remove_chat_channel(queue: str, *, variable: str, actor: str = SYSTEM) -> ChatChannel:
    """Stop notifying a chat channel. Messages that are due are not sent."""
    lock_head()
    channel = ChatChannel.objects.filter(queue=_find_queue(queue), variable=variable, removed_at=None).first()
    if channel is None:
        raise ProvisioningError(f"Queue {queue} has no chat channel {variable}.")
    channel.removed_at = clock.now()
    channel.save(update_fields=["removed_at"])
    audit_log.record(channel, actor=actor, action=REMOVED)
    return channel
