"""Policies: versions of the rules of a reason, checked before they are stored."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypedDict, Unpack

from django.db import transaction
from django.utils.translation import gettext_noop

from reviewqueue.operations.provisioning.names import SYSTEM, ProvisioningError, find_agent, find_queue
from runs.configuration_history import lock_head, record_configuration
from runs.models import Policy
from runs.policies import BUILT_IN, MAX_DEADLINE
from runs.states import OnExpiry, OnReject, Risk, RuleRisk, SecondFactor

MAX_QUORUM = 20
MIN_EXPIRY, MAX_EXPIRY = timedelta(minutes=1), timedelta(days=3650)
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
    "standing_rules",
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

#: Labels of the rules by their kind, and the values of those that are a choice.
DURATIONS = {
    "deadline_default": gettext_noop("Deadline of a request without one"),
    "deadline_min": gettext_noop("Shortest deadline"),
    "deadline_max": gettext_noop("Longest deadline"),
    "escalate_wait": gettext_noop("Deadline in the next queue"),
    "permit_ttl": gettext_noop("How long an approval can be used"),
    "freshness": gettext_noop("How long checked facts count as current"),
    "claim_time": gettext_noop("How long a reviewer's claim is valid"),
    "expire_paused": gettext_noop("How long a run can stay paused"),
    "expire_blocked": gettext_noop("How long a run can stay on hold"),
    "expire_revalidating": gettext_noop("How long facts can stay unchecked"),
}
FLAGS = {
    "any_queue": gettext_noop("A request can name any queue"),
    "self_review": gettext_noop("The person who started a run can decide about it"),
    "require_reason": gettext_noop("A rejection must have a reason"),
    "default_may_approve": gettext_noop("An automatic answer at the deadline can approve"),
    "pause_stops_deadline": gettext_noop("A pause of the run stops the deadline"),
}
CHOICES: dict[str, tuple[str, tuple[str, ...]]] = {
    "on_expiry": (
        gettext_noop("At the deadline"),
        (OnExpiry.CANCEL, OnExpiry.FAIL, OnExpiry.RESUME, OnExpiry.ESCALATE),
    ),
    "then": (gettext_noop("After the last queue"), (OnExpiry.CANCEL, OnExpiry.FAIL)),
    "on_reject": (gettext_noop("After a rejection"), tuple(OnReject.values)),
    "second_factor": (gettext_noop("Decisions that need a second factor of their own"), tuple(SecondFactor.values)),
    "standing_rules": (gettext_noop("Highest risk that a lead's standing rule can decide"), tuple(RuleRisk.values)),
    "risk_floor": (gettext_noop("Lowest risk of a request"), tuple(Risk.values)),
}
NUMBERS = {
    "quorum": gettext_noop("How many people must approve the same call"),
    "max_rounds": gettext_noop("How often a review can be renewed"),
}


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
    standing_rules: str
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
    of = find_agent(agent) if agent else None
    rules: dict[str, Any] = {**changes}
    last = Policy.objects.filter(reason=reason, agent=of).order_by("-version").first()
    inherited = {} if last is None else {name: getattr(last, name) for name in POLICY_RULES}
    if last is not None and (is_built_in(last) or rules.get("queues")):
        rules.setdefault("any_queue", False)
    found = {name: find_queue(name, rule=rule) for rule, name in named_queues(changes)}
    for rule in ("queue", "escalate_to"):
        if isinstance(rules.get(rule), str):
            rules[rule] = found[rules[rule]]
    version = 1 if last is None else last.version + 1
    policy = Policy(reason=reason, agent=of, version=version, **(inherited | rules))
    _check_policy(policy)
    before: Any = last or Policy()
    changed = [name for name in POLICY_RULES if getattr(policy, name) != getattr(before, name)]
    return DraftPolicy(policy=policy, last=last, changed=changed)


def named_queues(rules: PolicyRules) -> list[tuple[str, str]]:
    """Return each queue that these rules name, after the name of its rule."""
    own = [(rule, name) for rule, name in rules.items() if rule in ("queue", "escalate_to") and isinstance(name, str)]
    others = [("queues", name) for name in rules.get("queues") or []]
    return [*own, *others, *(("escalate_further", step["queue"]) for step in rules.get("escalate_further") or [])]


def whole_seconds(length: timedelta, rule: str) -> int:
    """Return a duration of a rule that stores seconds. Raises ``ProvisioningError`` for a fraction of a second."""
    if length % timedelta(seconds=1):
        raise ProvisioningError(f"{rule} must have whole seconds.", rule=rule)
    return int(length.total_seconds())


def is_built_in(policy: Policy) -> bool:
    """Return whether the policy is one of those created by the migrations."""
    return policy.agent_id is None and policy.version == 1 and policy.queue_id is None and policy.reason in BUILT_IN


def _check_policy(policy: Policy) -> None:
    if policy.queue is None:
        raise ProvisioningError("A policy must have a queue for its requests.", rule="queue")
    if policy.any_queue and policy.queues:
        raise ProvisioningError(
            "A policy allows any queue or a list of queues, not both: any_queue excludes queues.", rule="any_queue"
        )
    _check_durations(policy)
    if not policy.deadline_min <= policy.deadline_default <= policy.deadline_max:
        raise ProvisioningError(
            "The deadlines must be in order: deadline_min, deadline_default, deadline_max.", rule="deadline_default"
        )
    unknown = sorted({*policy.on_expiry_allowed, policy.on_expiry} - {*OnExpiry.values})
    if unknown:
        raise ProvisioningError(
            f"on_expiry must be one of {', '.join(OnExpiry.values)} (got {unknown[0]}).",
            rule="on_expiry" if policy.on_expiry in unknown else "on_expiry_allowed",
        )
    if policy.on_expiry == OnExpiry.DEFAULT:
        raise ProvisioningError(
            "A policy's on_expiry cannot be default: each request brings its own default answer.", rule="on_expiry"
        )
    if policy.on_expiry == OnExpiry.ESCALATE and policy.escalate_to is None:
        raise ProvisioningError("To escalate, a policy needs the next queue.", rule="escalate_to")
    if policy.escalate_further and policy.escalate_to is None:
        raise ProvisioningError("escalate_further needs the first escalation queue.", rule="escalate_to")
    chain = [
        *([policy.escalate_to.slug] if policy.escalate_to else []),
        *(it["queue"] for it in policy.escalate_further),
    ]
    if len(set(chain)) != len(chain):
        raise ProvisioningError("An escalation can name each queue only once.", rule="escalate_further")
    if policy.then not in {OnExpiry.CANCEL, OnExpiry.FAIL}:
        raise ProvisioningError(
            "After the last queue the run is cancelled or failed: then must be cancel or fail.", rule="then"
        )
    if policy.on_reject not in OnReject.values:
        raise ProvisioningError(
            "After a rejection the run continues or is cancelled: on_reject must be resume or cancel.", rule="on_reject"
        )
    if policy.second_factor not in SecondFactor.values:
        raise ProvisioningError(f"second_factor must be one of {', '.join(SecondFactor.values)}.", rule="second_factor")
    if policy.standing_rules not in RuleRisk.values:
        raise ProvisioningError(f"standing_rules must be one of {', '.join(RuleRisk.values)}.", rule="standing_rules")
    if not 1 <= policy.quorum <= MAX_QUORUM:
        raise ProvisioningError(f"quorum must be from 1 to {MAX_QUORUM}.", rule="quorum")
    if policy.risk_floor not in Risk.values:
        raise ProvisioningError(f"risk_floor must be one of {', '.join(Risk.values)}.", rule="risk_floor")
    for name in ("expire_paused", "expire_blocked", "expire_revalidating"):
        if not MIN_EXPIRY <= getattr(policy, name) <= MAX_EXPIRY:
            raise ProvisioningError(f"{name} must be from 1 minute to 3650 days.", rule=name)
    if not 1 <= policy.max_rounds <= 100:
        raise ProvisioningError("max_rounds must be from 1 to 100.", rule="max_rounds")


def _check_durations(policy: Policy) -> None:
    """Refuse durations in lists that are empty, and those that cannot be added to a time: a later sweep would fail."""
    durations = [(name, getattr(policy, name)) for name in POLICY_RULES if not name.startswith("expire_")]
    listed = [("remind_before", seconds) for seconds in policy.remind_before]
    listed += [("escalate_further", step["seconds"]) for step in policy.escalate_further]
    for name, seconds in listed:
        if seconds < 1:
            raise ProvisioningError(f"{name} must be at least 1 second.", rule=name)
        durations.append((name, timedelta(seconds=seconds)))
    for name, length in durations:
        limit = MAX_DEADLINE if name.startswith("deadline_") else MAX_EXPIRY
        if isinstance(length, timedelta) and length > limit:
            raise ProvisioningError(f"{name} must be at most {limit.days} days.", rule=name)
