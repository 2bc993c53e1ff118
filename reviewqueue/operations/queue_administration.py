"""Queues and policies with their permissions: create, change, preview.

Operators change every queue and policy. Owners change their queues, and the policies of their agents. Such a policy can
name only their own queues and those that the policy before it allows, and is not looser than the general policy of its
reason (``runs.policies.looser_rules``: quorum, second factor, risk, self-review, approval by default). Who reviews in a
queue is changed on the page of people.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Unpack

from django.contrib.auth.models import AbstractUser
from django.db import transaction
from django.db.models import Count, Q, QuerySet

from ledger.actors import person_actor
from ledger.digests import digest
from ledger.errors import NotFound
from reviewqueue import permissions
from reviewqueue.operations import audit_log
from reviewqueue.operations.provisioning import names, policies, queues
from reviewqueue.operations.provisioning.names import ProvisioningError
from reviewqueue.operations.provisioning.policies import DraftPolicy, PolicyRules
from runs.configuration_history import CHANGED, lock_head
from runs.errors import StaleVersion
from runs.models import Agent, Interrupt, Policy, Queue
from runs.policies import allowed_queues, looser_rules
from runs.states import InterruptStatus


@dataclass(frozen=True, kw_only=True)
class OpenRequests:
    """Open requests under a version of the policy, in one queue (empty: without one)."""

    version: int
    queue: str
    count: int


@dataclass(frozen=True, kw_only=True)
class PolicyPreview:
    """What a new version would change. ``applies_at_once``: rules that are stricter, and so also limit open requests.

    ``queues_added`` and ``queues_removed``: which queues the next requests can go to.
    """

    draft: DraftPolicy
    queues_added: list[str]
    queues_removed: list[str]
    open_requests: list[OpenRequests]
    applies_at_once: list[str]


# --- queues -----------------------------------------------------------------------------------------------------------


def find_queue(person: AbstractUser, slug: str) -> Queue:
    """Return a queue that the person administers. Raises ``NotFound``."""
    queue = _with_groups(permissions.owned_queues(person)).filter(slug=slug).first()
    if queue is None:
        raise NotFound
    return queue


def _with_groups(queues: QuerySet[Queue]) -> QuerySet[Queue]:
    return queues.select_related("owner", "reviewers", "leads", "auditors")


def refuse_unless_administrator(person: AbstractUser) -> None:
    """Refuse people who administer no queue and no agent as if there were nothing. Raises ``NotFound``."""
    if permissions.is_operator(person):
        return
    if not (permissions.owned_queues(person).exists() or permissions.owned_agents(person).exists()):
        raise NotFound


def queues_of(person: AbstractUser) -> QuerySet[Queue]:
    """Return the queues that the person administers, by name."""
    return _with_groups(permissions.owned_queues(person)).order_by("slug")


def state_token(queue: Queue) -> str:
    """Return the digest of what can be changed, by which a form or call names the state that its author saw."""
    return digest(audit_log.state_of(queue)).partition(":")[2][:16]


@transaction.atomic
def add_queue(person: AbstractUser, name: str, *, owner: str) -> Queue:
    """Add a queue with the groups of its people. Only operators can."""
    if not permissions.is_operator(person):
        raise NotFound
    return queues.add_queue(name, owner=owner, actor=person_actor(person))


@transaction.atomic
def change_queue(
    person: AbstractUser, slug: str, *, state: str, accepts_new: bool | None = None, owner: str = ""
) -> Queue:
    """Close a queue for new requests, open it again, or (operators) give it to another owner group.

    Raises ``StaleVersion`` if the queue is no longer as in ``state`` (``state_token``).
    """
    lock_head()
    queue = find_queue(person, slug)
    if state_token(queue) != state:
        raise StaleVersion(f"The queue {slug} was changed in the meantime. Nothing was done. Read it again.")
    before = audit_log.state_of(queue)
    if owner:
        if not permissions.is_operator(person):
            raise ProvisioningError("Only operators can change the owner of a queue.")
        queue.owner = names.find_or_add_group(owner)
    if accepts_new is not None:
        queue.accepts_new = accepts_new
    if audit_log.state_of(queue) == before:
        raise ProvisioningError(f"The queue {slug} has this state already.")
    queue.save(update_fields=["owner", "accepts_new"])
    audit_log.record(queue, actor=person_actor(person), action=CHANGED, before=before)
    return queue


# --- policies ---------------------------------------------------------------------------------------------------------


def newest_policies(person: AbstractUser) -> list[Policy]:
    """Return the newest version of each policy that the person can read: the general ones, and those of their agents."""
    agents = permissions.owned_agents(person)
    rows = Policy.objects.filter(Q(agent=None) | Q(agent__in=agents)).select_related("agent", "queue", "escalate_to")
    newest = {(policy.reason, policy.agent_id): policy for policy in rows.order_by("version")}
    return sorted(newest.values(), key=lambda it: (it.reason, it.agent.slug if it.agent else ""))


def can_change(person: AbstractUser, agent: Agent | None) -> bool:
    """Tell whether the person can add a version of a policy of this agent (``None``: a general one)."""
    return permissions.is_operator(person) or (
        agent is not None and permissions.owned_agents(person).filter(pk=agent.pk).exists()
    )


def find_policy(person: AbstractUser, reason: str, *, agent: str) -> Policy | None:
    """Return the newest version, or ``None`` if there is none yet. Raises ``NotFound`` if the person cannot change it."""
    of = None if not agent else Agent.objects.filter(slug=agent).first()
    if (agent and of is None) or not can_change(person, of):
        raise NotFound
    found = Policy.objects.filter(reason=reason, agent=of).select_related("agent", "queue", "escalate_to")
    return found.order_by("-version").first()


def preview_policy(
    person: AbstractUser, reason: str, *, agent: str = "", **changes: Unpack[PolicyRules]
) -> PolicyPreview:
    """Return what the next version would change. Nothing is stored."""
    last = find_policy(person, reason, agent=agent)
    _refuse_queues_of_others(person, _current(reason, last), changes)
    draft = policies.draft_policy(reason, agent=agent, **changes)
    _refuse_beyond_owner(person, draft)
    before, after = _reached_queues(_current(reason, draft.last)), _reached_queues(draft.policy)
    return PolicyPreview(
        draft=draft,
        queues_added=[name for name in after if name not in before],
        queues_removed=[name for name in before if name not in after],
        open_requests=_open_requests(draft),
        applies_at_once=_stricter_rules(draft),
    )


@transaction.atomic
def add_policy(
    person: AbstractUser, reason: str, *, based_on: int, agent: str = "", **changes: Unpack[PolicyRules]
) -> Policy:
    """Add the next version. Raises ``StaleVersion`` if ``based_on`` (0: none) is not the newest version any more."""
    lock_head()
    last = find_policy(person, reason, agent=agent)
    if (0 if last is None else last.version) != based_on:
        now = "no version" if last is None else f"version {last.version}"
        raise StaleVersion(f"The policy of {reason} has {now} now. Nothing was done. Read it again.")
    _refuse_queues_of_others(person, _current(reason, last), changes)
    _refuse_beyond_owner(person, policies.draft_policy(reason, agent=agent, **changes))
    return policies.add_policy(reason, agent=agent, actor=person_actor(person), **changes)


def _current(reason: str, last: Policy | None) -> Policy | None:
    """Return the policy that applies now: the version before, or for an agent's first one the general policy."""
    if last is not None:
        return last
    general = Policy.objects.filter(reason=reason, agent=None).select_related("queue", "escalate_to")
    return general.order_by("-version").first()


def _reached_queues(policy: Policy | None) -> list[str]:
    """Return the queues that a request can name or be escalated to; ``any`` means every queue."""
    if policy is None:
        return []
    named = ["any"] if policy.any_queue else allowed_queues(policy)
    escalated = [] if policy.escalate_to is None else [policy.escalate_to.slug]
    return list(dict.fromkeys([*named, *escalated, *(step["queue"] for step in policy.escalate_further)]))


def _refuse_queues_of_others(person: AbstractUser, current: Policy | None, rules: PolicyRules) -> None:
    """Refuse an owner every queue that is not hers and not in the current policy, in the same way if there is none."""
    if permissions.is_operator(person):
        return
    before, owned = _reached_queues(current), {*permissions.owned_queues(person).values_list("slug", flat=True)}
    if rules.get("any_queue") and "any" not in before:
        raise ProvisioningError("Only an operator can allow any queue.", rule="any_queue")
    for rule, name in policies.named_queues(rules):
        if name not in owned and name not in before:
            raise ProvisioningError(
                f"You do not own the queue {name}, and the policy does not allow it now. An operator can add it.",
                rule=rule,
            )


def _refuse_beyond_owner(person: AbstractUser, draft: DraftPolicy) -> None:
    if permissions.is_operator(person):
        return
    general = Policy.objects.filter(reason=draft.policy.reason, agent=None).order_by("-version").first()
    looser = [] if general is None else looser_rules(draft.policy, general)
    if looser:
        raise ProvisioningError(
            f"The general policy of {draft.policy.reason} is stricter in: {', '.join(looser)}. "
            "Only an operator can be looser."
        )


def _open_requests(draft: DraftPolicy) -> list[OpenRequests]:
    policies = Policy.objects.filter(reason=draft.policy.reason, agent=draft.policy.agent)
    waiting = Interrupt.objects.filter(policy__in=policies, status=InterruptStatus.WAITING)
    rows = (
        waiting.values_list("policy__version", "queue__slug").annotate(count=Count("pk")).order_by("-policy__version")
    )
    return [OpenRequests(version=version, queue=queue or "", count=count) for version, queue, count in rows]


def _stricter_rules(draft: DraftPolicy) -> list[str]:
    """Return the rules of which the newest version also limits requests that are open (docs/permissions.md)."""
    before, after = _current(draft.policy.reason, draft.last), draft.policy
    if before is None:
        return []
    found = []
    if before.self_review and not after.self_review:
        found.append("The person who started a run can no longer decide open requests of it.")
    if before.default_may_approve and not after.default_may_approve:
        found.append("An automatic answer at the deadline can no longer approve open requests.")
    kept = _reached_queues(after)
    lost = [name for name in _reached_queues(before) if name not in kept and name != "any"]
    if "any" not in kept and (lost or "any" in _reached_queues(before)):
        found.append(
            "Open requests in a queue that is no longer allowed cannot be decided; they end at their deadline."
        )
    return found
