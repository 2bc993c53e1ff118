"""Policies: the newest version for a reason, and the terms that a request gets under it. Nothing is written here.

A request can only be stricter than its policy. Policies are versioned rows, and an open interrupt keeps its version.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db.models import F, OuterRef, Q, QuerySet

from ledger.errors import PayloadInvalid, Problem
from ledger.prepared_queries import prepared
from runs import schemas
from runs.configuration_history import is_as_recorded, recorded_policy
from runs.errors import PolicyRefuses, RecordChanged
from runs.models import Agent, EffectRule, Interrupt, Policy, Queue
from runs.schemas.attachments import list_named_files
from runs.states import APPROVING, RISK_RANK, Kind, OnExpiry, Risk, RuleAction, RuleRisk, SecondFactor, Verdict

#: The reasons that migrations create, whose version 1 has no queue, with their descriptions.
BUILT_IN = {
    "approval.action": "approve one exact call",
    "question": "answer a request for input",
    "evidence.missing": "provide evidence that the agent lacks",
    "repair": "repair something that the agent cannot repair",
    "event": "wait for a signal of another program",
    "timer": "wait for a time",
}

#: A later deadline is a mistake. The limit also keeps the arithmetic of both databases in range.
MAX_DEADLINE = timedelta(days=36525)


@dataclass(frozen=True, kw_only=True)
class InterruptTerms:
    """The terms of an interrupt under its policy; ``deadline`` is in UTC."""

    policy: Policy
    queue: Queue | None
    deadline: datetime
    on_expiry: dict[str, Any]
    risk: str
    quorum: int


@dataclass(frozen=True, kw_only=True)
class RequestedTerms:
    """The terms that the agent requests; ``None`` means the policy's default. Only one deadline member can be set."""

    queue: str | None = None
    deadline: datetime | None = None
    deadline_in: timedelta | None = None
    on_expiry: dict[str, Any] | None = None
    risk: str | None = None
    quorum: int | None = None


@dataclass(frozen=True, kw_only=True)
class ReadPolicies:
    """Newest policies by reason, and queues by slug, that the use case has read. Others are read when they are needed."""

    policies: dict[str, Any] = field(default_factory=dict)  # of `newest_policy`
    queues: dict[str, Queue | None] = field(default_factory=dict)


def current_policy(agent: Agent, reason: str, *, at: str = "", read: ReadPolicies | None = None) -> Policy:
    """Return the newest policy of ``reason``, the agent's own before the general one. Refuses an unknown reason."""
    found = read.policies.get(reason) if read else None
    if found is None:
        found = _newest_policy.first(agent=agent.pk, reason=reason)
    if found is not None:
        newest: Policy = found
        refuse_changed_policy(newest, found.recorded)
        return newest
    known = sorted({*Policy.objects.values_list("reason", flat=True)})
    raise _refused(f"{at}/reason", f"must be one of: {', '.join(known)}", rule="reason")


def rules_with_any_queue(*, reason: str = "") -> list[tuple[EffectRule, Policy]]:
    """Return the effect rules whose approval an agent can request in any queue, with the policy that allows it.

    ``reason`` limits them to one reason. A policy that child runs inherit is found with the rules of its own agent.
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
def _newest_policy(agent: int, reason: str) -> QuerySet[Any]:
    return newest_policy(agent, reason)


def read_policies(agent: Agent, reasons: set[str], slugs: set[str | None]) -> ReadPolicies:
    """Read the policies of these reasons and the queues with these slugs; what does not exist is left out."""
    policies = {reason: _newest_policy.first(agent=agent.pk, reason=reason) for reason in sorted(reasons)}
    queues = {slug: _queue_by_slug.first(slug=slug) for slug in slugs if slug is not None}
    return ReadPolicies(policies={reason: it for reason, it in policies.items() if it is not None}, queues=queues)


def newest_policy(agent: Any, reason: Any) -> QuerySet[Any]:
    """Return the query of the newest policy of a reason, with its record, for a prepared query."""
    policies = Policy.objects.filter(Q(agent=agent) | Q(agent=None), reason=reason).select_related("queue")
    newest_first = policies.order_by(F("agent").desc(nulls_last=True), "-version")
    return newest_first.annotate(recorded=recorded_policy(OuterRef("pk")))[:1]


def refuse_changed_policy(policy: Policy, recorded: dict[str, Any] | None) -> None:
    """Refuse a policy version that was changed or inserted without a record of it (``runs.configuration_history``)."""
    if not is_as_recorded(policy, recorded):
        raise RecordChanged(f"The policy {policy} differs from its record.", record=f"policy:{policy.pk}")


def find_own_policy(agent_id: int, reason: str) -> Policy | None:
    """Return the newest policy for ``reason`` that belongs to the agent."""
    own = Policy.objects.filter(agent=agent_id, reason=reason).annotate(recorded=recorded_policy(OuterRef("pk")))
    policy = own.order_by("-version").first()
    if policy is not None:
        refuse_changed_policy(policy, policy.recorded)
    return policy


def decide_terms(
    policy: Policy,
    wish: RequestedTerms,
    *,
    kind: str,
    verdicts: list[str],
    schema: Any,
    now: datetime,
    at: str,
    read: ReadPolicies | None = None,
) -> InterruptTerms:
    """Return the terms of an interrupt under ``policy``. ``at`` is the interrupt's JSON Pointer in the request.

    Raises ``PolicyRefuses`` with the rule if the request is less strict, ``PayloadInvalid`` for an invalid member.
    """
    if not verdicts:
        return _terms_without_people(policy, wish, kind=kind, schema=schema, now=now, at=at)
    quorum = _quorum(policy, wish.quorum, verdicts=verdicts, at=at)
    deadline = _deadline(policy, wish, now, at)
    on_expiry = _on_expiry(policy, wish.on_expiry, verdicts=verdicts, schema=schema, quorum=quorum, at=at)
    if on_expiry["do"] == OnExpiry.ESCALATE:
        member = "deadline_in" if wish.deadline_in is not None else "deadline"
        refuse_skipped_queue(policy, deadline - now, at=f"{at}/{member}")
    return InterruptTerms(
        policy=policy,
        queue=_queue(policy, wish.queue, at, {} if read is None else read.queues),
        deadline=deadline,
        on_expiry=on_expiry,
        risk=_risk(policy, wish.risk, at),
        quorum=quorum,
    )


def _terms_without_people(
    policy: Policy, wish: RequestedTerms, *, kind: str, schema: Any, now: datetime, at: str
) -> InterruptTerms:
    """Return the terms of a timer, or of an event that only a signal can answer."""
    if policy.quorum > 1:
        raise _refused(f"{at}/reason", f"has a quorum of {policy.quorum}, so it needs people who decide", rule="quorum")
    on_expiry: dict[str, Any] = {"do": OnExpiry.RESUME}
    if kind != Kind.TIMER:
        on_expiry = _on_expiry(policy, wish.on_expiry, verdicts=[Verdict.ANSWER], schema=schema, quorum=1, at=at)
        if on_expiry["do"] == OnExpiry.ESCALATE:
            raise _refused(f"{at}/on_expiry/do", "must not be escalate without a queue", rule="on_expiry")
    return InterruptTerms(
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
        raise _refused(f"{at}/quorum", f"must be at least {policy.quorum}", rule="quorum")
    if quorum > 1 and not APPROVING.intersection(verdicts):
        raise _refused(f"{at}/quorum", "must be 1: only approvals can have a quorum", rule="quorum")
    return quorum


def _queue(policy: Policy, slug: str | None, at: str, read: dict[str, Queue | None]) -> Queue:
    if slug is None:
        if policy.queue is None:
            raise _refused(f"{at}/queue", f"is missing: the reason {policy.reason} has no default queue", rule="queue")
        return policy.queue
    # Checked before the lookup, so that a forbidden queue and a missing one get the same answer.
    if not policy.any_queue and slug not in allowed_queues(policy):
        raise _refused(f"{at}/queue", f"must be one of: {', '.join(allowed_queues(policy))}", rule="queues")
    is_default = policy.queue is not None and policy.queue.slug == slug
    queue = policy.queue if is_default else read[slug] if slug in read else _queue_by_slug.first(slug=slug)
    if queue is None:
        raise _refused(f"{at}/queue", "is not a queue that a request can name", rule="queues")
    if not queue.accepts_new:
        raise _refused(f"{at}/queue", "accepts no new requests at present", rule="accepts_new")
    return queue


def list_nameable_queues(agent_id: int | None) -> QuerySet[Queue]:
    """Return the queues that a request of this agent can name or be escalated to, by the newest policy of each reason."""
    policies = Policy.objects.filter(Q(agent=agent_id) | Q(agent=None)).select_related("queue", "escalate_to")
    newest = {(policy.reason, policy.agent_id): policy for policy in policies.order_by("version")}.values()
    if any(policy.any_queue for policy in newest):
        return Queue.objects.all()
    return Queue.objects.filter(slug__in={slug for policy in newest for slug in _deciding_queues(policy)})


def allowed_queues(policy: Policy) -> list[str]:
    """Return the slugs of the queues that a request can name, the default first. Not for policies with ``any_queue``."""
    own = [] if policy.queue is None else [policy.queue.slug]
    return list(dict.fromkeys([*own, *policy.queues]))


def allows_queue(policy: Policy, queue: Queue) -> bool:
    """Tell whether a request under the policy can be decided in the queue: the default, a listed one or an escalation's."""
    return policy.any_queue or queue.slug in _deciding_queues(policy)


def is_as_strict(policy: Policy, other: Policy) -> bool:
    """Tell whether ``other`` allows every approval that ``policy`` allows, by queue and by the rules of ``looser_rules``."""
    has_only_its_queues = not policy.any_queue and _deciding_queues(policy) <= _deciding_queues(other)
    return (other.any_queue or has_only_its_queues) and not looser_rules(policy, other)


def looser_rules(policy: Policy, other: Policy) -> list[str]:
    """Return the rules, besides the queues, by which ``policy`` allows an approval that ``other`` does not allow.

    A lower ``risk_floor`` is looser, because the second factor of ``high_risk`` depends on the risk.
    """
    is_looser = {
        "quorum": policy.quorum < other.quorum,
        "second_factor": STRICTNESS.index(policy.second_factor) < STRICTNESS.index(other.second_factor),
        "risk_floor": RISK_RANK[policy.risk_floor] > RISK_RANK[other.risk_floor],
        "standing_rules": RULE_RISKS.index(policy.standing_rules) > RULE_RISKS.index(other.standing_rules),
        "self_review": policy.self_review and not other.self_review,
        "default_may_approve": policy.default_may_approve and not other.default_may_approve,
    }
    return [name for name, looser in is_looser.items() if looser]


#: The values of ``second_factor``, the strictest last.
STRICTNESS = tuple(SecondFactor.values)


#: The values of ``standing_rules``, the strictest first.
RULE_RISKS = tuple(RuleRisk.values)


def allows_standing_rules(policy: Policy, risk: str) -> bool:
    """Tell whether the policy lets a lead's standing rule decide a request of this risk."""
    return risk in RULE_RISKS[1 : RULE_RISKS.index(policy.standing_rules) + 1]


def needs_second_factor(interrupt: Interrupt) -> bool:
    """Return whether a decision of the interrupt needs a second factor: by the policy that it was opened under."""
    required = interrupt.policy.second_factor
    is_high = interrupt.risk == Risk.HIGH
    return required == SecondFactor.ALWAYS or (required == SecondFactor.HIGH_RISK and is_high)


def _deciding_queues(policy: Policy) -> set[str]:
    """Return the slugs of the queues that a request can name or be escalated to."""
    escalated = [] if policy.escalate_to is None else [policy.escalate_to.slug]
    return {*allowed_queues(policy), *escalated, *(step["queue"] for step in policy.escalate_further)}


@prepared
def _queue_by_slug(slug: str) -> QuerySet[Queue]:
    return Queue.objects.filter(slug=slug)


def _deadline(policy: Policy, wish: RequestedTerms, now: datetime, at: str) -> datetime:
    if wish.deadline is not None and wish.deadline_in is not None:
        raise PayloadInvalid.at(f"{at}/deadline_in", "must not be combined with deadline")
    member = "deadline_in" if wish.deadline_in is not None else "deadline"
    wanted: timedelta | None = wish.deadline_in
    if wish.deadline is not None:
        wanted = wish.deadline - now
    if wanted is None:
        return now + policy.deadline_default
    if wanted <= timedelta(0):
        raise PayloadInvalid.at(f"{at}/{member}", "must be in the future")
    if wanted > MAX_DEADLINE:
        raise PayloadInvalid.at(f"{at}/{member}", "must be within a century")
    refuse_too_soon(policy, wanted, at=f"{at}/{member}")
    if wanted > policy.deadline_max:
        raise _refused(f"{at}/{member}", f"must be at most {policy.deadline_max} from now", rule="deadline_max")
    return wish.deadline or now + wanted


def refuse_too_soon(policy: Policy, wanted: timedelta, *, at: str) -> None:
    """Refuse a deadline that is sooner than the policy's minimum."""
    if wanted < policy.deadline_min:
        raise _refused(at, f"must be at least {policy.deadline_min} from now", rule="deadline_min")


def refuse_skipped_queue(policy: Policy, wanted: timedelta, *, at: str) -> None:
    """Refuse a deadline so soon that an escalation takes the request from the first queue before a reviewer can decide.

    The policy's own deadline can be sooner than the time of a reviewer's claim.
    """
    least = min(policy.claim_time, policy.deadline_default)
    if wanted < least:
        seconds = int(least.total_seconds())
        message = f"must be at least {seconds} seconds after the request, which is escalated at its deadline"
        raise _refused(at, message, rule="claim_time")


def _on_expiry(
    policy: Policy, wish: dict[str, Any] | None, *, verdicts: list[str], schema: Any, quorum: int, at: str
) -> dict[str, Any]:
    if wish is None:
        wish = {"do": policy.on_expiry}
    elif wish["do"] not in policy.on_expiry_allowed:
        raise _refused(
            f"{at}/on_expiry/do", f"must be one of: {', '.join(policy.on_expiry_allowed)}", rule="on_expiry_allowed"
        )
    if wish["do"] == OnExpiry.ESCALATE and policy.escalate_to_id is None:
        raise _refused(
            f"{at}/on_expiry/do", "cannot be escalate: the policy has no escalation queue", rule="escalate_to"
        )
    if wish["do"] == OnExpiry.DEFAULT:
        _check_default_answer(policy, wish, verdicts=verdicts, schema=schema, at=f"{at}/on_expiry")
        if quorum > 1 and wish["verdict"] in APPROVING:
            raise _refused(f"{at}/on_expiry/verdict", f"cannot approve for a quorum of {quorum}", rule="quorum")
    elif len(wish) > 1:
        raise PayloadInvalid.at(f"{at}/on_expiry", f"must not have an answer with do: {wish['do']}")
    return wish


def _check_default_answer(policy: Policy, wish: dict[str, Any], *, verdicts: list[str], schema: Any, at: str) -> None:
    verdict = wish.get("verdict")
    if verdict not in verdicts:
        raise PayloadInvalid.at(f"{at}/verdict", f"must be one of: {', '.join(verdicts)}")
    if verdict in APPROVING and not policy.default_may_approve:
        raise _refused(
            f"{at}/verdict", "cannot approve: the policy does not allow a default approval", rule="default_may_approve"
        )
    if verdict == Verdict.EDIT:
        raise PayloadInvalid.at(f"{at}/verdict", "cannot be edit")
    if verdict == Verdict.ANSWER and "input" not in wish:
        raise PayloadInvalid.at(f"{at}/input", "is missing: verdict answer needs an input")
    if "input" in wish:
        problems = schemas.validate(schema, wish["input"])
        if problems:
            raise PayloadInvalid(
                "The default answer does not match the input schema.",
                errors=[Problem(f"{at}/input{problem.pointer}", problem.message) for problem in problems],
            )
        if named := list_named_files(schema, wish["input"]):
            message = "must not name a file: only a reviewer attaches files"
            raise PayloadInvalid.at(f"{at}/input{named[0].pointer}", message)


def _risk(policy: Policy, wish: str | None, at: str) -> str:
    if wish is None:
        return min(policy.risk_floor, Risk.MEDIUM, key=RISK_RANK.__getitem__)
    if RISK_RANK[wish] > RISK_RANK[policy.risk_floor]:
        raise _refused(f"{at}/risk", f"must be at least {policy.risk_floor}", rule="risk_floor")
    return wish


def _refused(pointer: str, message: str, *, rule: str) -> PolicyRefuses:
    member = pointer.rpartition("/")[2]
    return PolicyRefuses(
        f"The policy of this reason refuses the request: {member} {message}.",
        errors=[Problem(pointer, message)],
        rule=rule,
    )
