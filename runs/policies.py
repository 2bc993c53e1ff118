"""The rules of each reason: which policy holds, and what a request gets under it.

The agent proposes, the policy disposes: a request may only be stricter than its policy. Called by ``interrupts`` when a
wait is opened. Policies are versioned rows; an open wait keeps the one it was opened under. Nothing is written here.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import OuterRef, Q, QuerySet

from ledger.errors import PayloadInvalid, Problem
from ledger.prepared_queries import prepared
from runs import schemas
from runs.configuration import is_as_recorded, recorded_policy
from runs.errors import PolicyRefuses, RecordChanged
from runs.models import Agent, EffectRule, Policy, Queue
from runs.states import APPROVING, RISK_RANK, Kind, OnExpiry, Risk, RuleAction, Verdict

#: The reasons that every installation knows, whose version 1 has no queue, and what each is for.
BUILT_IN = {
    "approval.action": "approve one exact call",
    "question": "answer a question",
    "evidence.missing": "bring evidence that the agent lacks",
    "repair": "repair something that the agent cannot",
    "event": "wait for a signal of another program",
    "timer": "wait for a time",
}

#: A deadline further off is a mistake, not a plan; it also keeps every database's arithmetic in range.
FURTHEST = timedelta(days=36525)


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What a wait gets: its desk, its end (UTC), what happens at that end, how risky it counts as."""

    policy: Policy
    queue: Queue | None
    deadline: datetime
    on_expiry: dict[str, Any]
    risk: str
    quorum: int


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What the agent asked for; ``None`` leaves it to the policy. ``deadline`` and ``deadline_in`` exclude each other."""

    queue: str | None = None
    deadline: datetime | None = None
    deadline_in: timedelta | None = None
    on_expiry: dict[str, Any] | None = None
    risk: str | None = None
    quorum: int | None = None


def current_policy(agent: Agent, reason: str, *, at: str = "") -> Policy:
    """Return the newest policy of ``reason``, the agent's own before everybody's. Refuses an unknown one."""
    own_or_common = _policies_of_reason.all(agent=agent.pk, reason=reason)
    found = sorted(own_or_common, key=lambda policy: (policy.agent_id is not None, policy.version))
    if found:
        newest: Policy = found[-1]
        refuse_changed_policy(newest, found[-1].recorded)
        return newest
    known = sorted({*Policy.objects.values_list("reason", flat=True)})
    raise _refused(f"{at}/reason", f"is not known; known reasons: {', '.join(known)}", rule="reason")


def rules_with_open_policies(*, reason: str = "") -> list[tuple[EffectRule, Policy]]:
    """Return the effect rules whose approval an agent may ask of any queue, with the policy that lets it.

    ``reason`` limits them to one reason. A policy that child runs inherit is found with the rules of the agent that has
    it.
    """
    rules = EffectRule.objects.filter(action=RuleAction.APPROVAL).select_related("agent")
    rules = rules.filter(reason=reason) if reason else rules
    newest = {(policy.reason, policy.agent_id): policy for policy in Policy.objects.order_by("version")}
    found = [
        (rule, newest.get((rule.reason, rule.agent_id)) or newest.get((rule.reason, None)))
        for rule in rules.order_by("agent__slug", "name_pattern")
    ]
    return [(rule, policy) for rule, policy in found if policy is not None and policy.any_queue]


@prepared
def _policies_of_reason(agent: int, reason: str) -> QuerySet[Any]:
    policies = Policy.objects.filter(Q(agent=agent) | Q(agent=None), reason=reason)
    return policies.annotate(recorded=recorded_policy(OuterRef("pk")))


def refuse_changed_policy(policy: Policy, recorded: dict[str, Any] | None) -> None:
    """Refuse a policy version that was changed or inserted without a record of it (``runs.configuration``)."""
    if not is_as_recorded(policy, recorded):
        raise RecordChanged(f"The policy {policy} is not as it was recorded.", record=f"policy:{policy.pk}")


def own_policy(agent_id: int, reason: str) -> Policy | None:
    """Return the newest policy that an agent has of its own for ``reason``."""
    own = Policy.objects.filter(agent=agent_id, reason=reason).annotate(recorded=recorded_policy(OuterRef("pk")))
    policy = own.order_by("-version").first()
    if policy is not None:
        refuse_changed_policy(policy, policy.recorded)
    return policy


def settle_terms(
    policy: Policy, wish: Wish, *, kind: str, verdicts: list[str], schema: Any, now: datetime, at: str
) -> Terms:
    """Return the terms of a wait under ``policy``. ``at`` is the JSON Pointer of the wait in the request.

    Raises ``PolicyRefuses`` naming the rule where the wish is laxer, ``PayloadInvalid`` where it makes no sense.
    """
    if not verdicts:
        return _terms_of_nobody(policy, wish, kind=kind, schema=schema, now=now, at=at)
    quorum = _quorum(policy, wish.quorum, verdicts=verdicts, at=at)
    return Terms(
        policy=policy,
        queue=_queue(policy, wish.queue, at),
        deadline=_deadline(policy, wish, now, at),
        on_expiry=_on_expiry(policy, wish.on_expiry, verdicts=verdicts, schema=schema, quorum=quorum, at=at),
        risk=_risk(policy, wish.risk, at),
        quorum=quorum,
    )


def _terms_of_nobody(policy: Policy, wish: Wish, *, kind: str, schema: Any, now: datetime, at: str) -> Terms:
    """Return the terms of a wait that asks nobody: a timer fires at its end, a signal's wait ends as the policy says."""
    if policy.quorum > 1:
        raise _refused(f"{at}/reason", f"is one that {policy.quorum} people decide", rule="quorum")
    on_expiry: dict[str, Any] = {"do": OnExpiry.RESUME}
    if kind != Kind.TIMER:
        on_expiry = _on_expiry(policy, wish.on_expiry, verdicts=[Verdict.ANSWER], schema=schema, quorum=1, at=at)
        if on_expiry["do"] == OnExpiry.ESCALATE:
            raise _refused(f"{at}/on_expiry/do", "is escalate, and nobody is asked", rule="on_expiry")
    return Terms(
        policy=policy,
        queue=None,
        deadline=_deadline(policy, wish, now, at),
        on_expiry=on_expiry,
        risk=_risk(policy, wish.risk, at),
        quorum=1,
    )


def _quorum(policy: Policy, wish: int | None, *, verdicts: list[str], at: str) -> int:
    quorum = policy.quorum if wish is None else wish
    if quorum < policy.quorum:
        raise _refused(f"{at}/quorum", f"may not be below {policy.quorum}", rule="quorum")
    if quorum > 1 and not APPROVING.intersection(verdicts):
        raise _refused(f"{at}/quorum", "is for approvals: several people agree on one call", rule="quorum")
    return quorum


def _queue(policy: Policy, slug: str | None, at: str) -> Queue:
    if slug is None:
        if policy.queue is None:
            raise _refused(f"{at}/queue", f"is needed: {policy.reason} has no queue of its own", rule="queue")
        return policy.queue
    # Judged before the queue is looked for: a queue that is not allowed and one that does not exist get the same
    # answer.
    if not policy.any_queue and slug not in allowed_queues(policy):
        raise _refused(f"{at}/queue", f"may be {', '.join(allowed_queues(policy))}", rule="queues")
    queue = _queue_by_slug.first(slug=slug)
    if queue is None:
        raise _refused(f"{at}/queue", "is not a queue that a request may name", rule="queues")
    if not queue.accepts_new:
        raise _refused(f"{at}/queue", "takes nothing new at present", rule="accepts_new")
    return queue


def allowed_queues(policy: Policy) -> list[str]:
    """Return the slugs of the queues that a request may name, the policy's own first. Meaningless with ``any_queue``."""
    own = [] if policy.queue is None else [policy.queue.slug]
    return list(dict.fromkeys([*own, *policy.queues]))


def lets_decide_in(policy: Policy, queue: Queue) -> bool:
    """Tell whether a request under the policy may be decided in the queue: its own, a listed one, or an escalation's."""
    return policy.any_queue or queue.slug in _deciding_queues(policy)


def is_as_strict(policy: Policy, other: Policy) -> bool:
    """Tell whether every approval that ``policy`` allows, by people and by number of people, is allowed by ``other`` too."""
    return (
        (other.any_queue or (not policy.any_queue and _deciding_queues(policy) <= _deciding_queues(other)))
        and policy.quorum >= other.quorum
        and policy.self_review <= other.self_review
        and policy.default_may_approve <= other.default_may_approve
    )


def _deciding_queues(policy: Policy) -> set[str]:
    """Return the slugs of the queues that a request may name, and of those that it can be escalated to."""
    escalated = [] if policy.escalate_to is None else [policy.escalate_to.slug]
    return {*allowed_queues(policy), *escalated, *(step["queue"] for step in policy.escalate_further)}


@prepared
def _queue_by_slug(slug: str) -> QuerySet[Queue]:
    return Queue.objects.filter(slug=slug)


def _deadline(policy: Policy, wish: Wish, now: datetime, at: str) -> datetime:
    if wish.deadline is not None and wish.deadline_in is not None:
        raise PayloadInvalid.at(f"{at}/deadline_in", "goes without deadline: one of the two")
    member = "deadline_in" if wish.deadline_in is not None else "deadline"
    wanted: timedelta | None = wish.deadline_in
    if wish.deadline is not None:
        wanted = wish.deadline - now
    if wanted is None:
        return now + policy.deadline_default
    if wanted <= timedelta(0):
        raise PayloadInvalid.at(f"{at}/{member}", "has passed already")
    if wanted > FURTHEST:
        raise PayloadInvalid.at(f"{at}/{member}", "is more than a century away")
    refuse_too_soon(policy, wanted, at=f"{at}/{member}")
    if wanted > policy.deadline_max:
        raise _refused(f"{at}/{member}", f"is later than {policy.deadline_max} from now", rule="deadline_max")
    return wish.deadline or now + wanted


def refuse_too_soon(policy: Policy, wanted: timedelta, *, at: str) -> None:
    """Refuse a deadline that leaves people less time than the policy gives them: when a wait is opened, and amended."""
    if wanted < policy.deadline_min:
        raise _refused(at, f"is sooner than {policy.deadline_min} from now", rule="deadline_min")


def _on_expiry(
    policy: Policy, wish: dict[str, Any] | None, *, verdicts: list[str], schema: Any, quorum: int, at: str
) -> dict[str, Any]:
    if wish is None:
        wish = {"do": policy.on_expiry}
    elif wish["do"] not in policy.on_expiry_allowed:
        raise _refused(f"{at}/on_expiry/do", f"may be {', '.join(policy.on_expiry_allowed)}", rule="on_expiry_allowed")
    if wish["do"] == OnExpiry.ESCALATE and policy.escalate_to_id is None:
        raise _refused(f"{at}/on_expiry/do", "has no queue to escalate to", rule="escalate_to")
    if wish["do"] == OnExpiry.DEFAULT:
        _check_default_answer(policy, wish, verdicts=verdicts, schema=schema, at=f"{at}/on_expiry")
        if quorum > 1 and wish["verdict"] in APPROVING:
            raise _refused(f"{at}/on_expiry/verdict", f"may not stand for {quorum} people", rule="quorum")
    elif len(wish) > 1:
        raise PayloadInvalid.at(f"{at}/on_expiry", f"with do: {wish['do']} takes no answer")
    return wish


def _check_default_answer(policy: Policy, wish: dict[str, Any], *, verdicts: list[str], schema: Any, at: str) -> None:
    verdict = wish.get("verdict")
    if verdict not in verdicts:
        raise PayloadInvalid.at(f"{at}/verdict", f"has to be one of: {', '.join(verdicts)}")
    if verdict in APPROVING and not policy.default_may_approve:
        raise _refused(f"{at}/verdict", "may not approve by itself", rule="default_may_approve")
    if verdict == Verdict.EDIT:
        raise PayloadInvalid.at(f"{at}/verdict", "cannot be edit: nobody is there to change the call")
    if "arguments" in wish:
        raise PayloadInvalid.at(f"{at}/arguments", "go with an edit only")
    if verdict == Verdict.ANSWER and "input" not in wish:
        raise PayloadInvalid.at(f"{at}/input", "is missing: the default answer")
    if "input" in wish:
        problems = schemas.validate(schema, wish["input"])
        if problems:
            raise PayloadInvalid(
                "The default answer does not fit its own schema.",
                errors=[Problem(f"{at}/input{problem.pointer}", problem.message) for problem in problems],
            )


def _risk(policy: Policy, wish: str | None, at: str) -> str:
    if wish is None:
        return min(policy.risk_floor, Risk.MEDIUM, key=RISK_RANK.__getitem__)
    if RISK_RANK[wish] > RISK_RANK[policy.risk_floor]:
        raise _refused(f"{at}/risk", f"may not be below {policy.risk_floor}", rule="risk_floor")
    return wish


def _refused(pointer: str, message: str, *, rule: str) -> PolicyRefuses:
    member = pointer.rpartition("/")[2]
    return PolicyRefuses(
        f"The policy of this reason refuses the request: {member} {message}.",
        errors=[Problem(pointer, message)],
        rule=rule,
    )
