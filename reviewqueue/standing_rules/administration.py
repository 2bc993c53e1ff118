"""Standing rules for the people who make and watch them: list, preview, add and revoke.

Leads of a queue make its rules. Its people, owners of the agent and operators read them. Leads and owners of the queue,
owners of the agent and operators revoke them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NotRequired, TypedDict, Unpack

from django.contrib.auth.models import AbstractUser
from django.db import transaction
from django.db.models import BooleanField, Exists, ExpressionWrapper, OuterRef, Q, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce
from django.utils.translation import gettext_noop

from ledger import clock
from ledger.actors import person_actor
from ledger.errors import NotFound, PayloadInvalid
from ledger.exact_json import null_if_longer
from reviewqueue import permissions
from reviewqueue.drafts import is_secret_name
from reviewqueue.standing_rules.eligibility import (
    are_free,
    covers,
    first_objections,
    own_policy_allows,
    requests_in_scope,
)
from runs import standing_rules
from runs.configuration_history import lock_head
from runs.errors import NotPermitted
from runs.models import Agent, Decision, Interrupt, Queue, StandingRule
from runs.policies import allows_standing_rules, current_policy
from runs.standing_rules import MAX_TEXT, Bound, RuleTerms, check_terms, rules_in_time, used_count
from runs.states import DecisionStatus, InterruptStatus, RuleRisk

#: Rules of one queue that can decide at the same time.
MAX_ACTIVE_RULES = 20
#: What a preview compares with the rule: open requests, and the newest ones that people decided in this time.
COMPARED, RECENT = 500, timedelta(days=30)
LONGEST_PROPOSAL = 20_000  # characters; a preview leaves out longer ones
NAMED = 10


#: What a rule is now (``status_of``), with its label.
STATUS_LABELS = {
    "active": gettext_noop("Active"),
    "idle": gettext_noop("Decides nothing: its lead may no longer approve these requests"),
    "used_up": gettext_noop("Used up"),
    "ended": gettext_noop("Ended"),
    "revoked": gettext_noop("Revoked"),
}


@dataclass(frozen=True, kw_only=True)
class RulePreview:
    """What a rule would have decided.

    ``waiting``: open requests, of ``waiting_compared``; ``named``: the ids of the first ones. ``recent``: requests of
    the last 30 days, of ``recent_compared``, and ``verdicts``: how they were decided. ``too_long``: how many could not be
    compared. ``oldest`` and ``newest``: only so many open and recent requests were compared; 0 means all.
    """

    waiting: int
    waiting_compared: int
    named: list[str]
    recent: int
    recent_compared: int
    verdicts: dict[str, int] = field(default_factory=dict)
    too_long: int = 0
    oldest: int = 0
    newest: int = 0


def agents_of_queues(queues: Iterable[Queue]) -> QuerySet[Agent]:
    """Return the agents that had a request in one of the queues, by name."""
    asked = Interrupt.objects.filter(queue__in=list(queues), agent=OuterRef("pk"))
    return Agent.objects.filter(Exists(asked)).order_by("slug")


def visible_rules(person: AbstractUser) -> QuerySet[StandingRule]:
    """Return the rules that the person can read, newest first, with their ``used`` count, whether their lead still
    ``may_have`` them, and the time of reading (``read_at``).
    """
    may_have = ExpressionWrapper(permissions.maker_may_have_rule(), output_field=BooleanField())
    rules = StandingRule.objects.select_related("queue", "agent", "made_by")
    rules = rules.annotate(used=used_count(), may_have=may_have, read_at=Value(clock.now()))
    if not person.is_active:
        return rules.none()
    if not permissions.is_operator(person):
        queues, agents = permissions.visible_queues(person), permissions.owned_agents(person)
        owned = permissions.owned_queues(person)
        rules = rules.filter(
            Q(queue__in=queues.values("pk")) | Q(queue__in=owned.values("pk")) | Q(agent__in=agents.values("pk"))
        )
    return rules.order_by("-id")


def find_rule(person: AbstractUser, rule_id: str) -> StandingRule:
    """Return a rule that the person can read. Raises ``NotFound``."""
    rule = visible_rules(person).filter(public_id=rule_id).first()
    if rule is None:
        raise NotFound
    return rule


def may_revoke(person: AbstractUser, rule: StandingRule) -> bool:
    """Tell whether the person may revoke the rule."""
    owns = permissions.owned_queues(person).filter(pk=rule.queue_id).exists()
    return owns or permissions.is_lead_of(person, rule.queue) or permissions.is_owner_or_operator(person, rule.agent)


class StatedBound(TypedDict):
    """A bound as a lead states it: the members of ``Bound``."""

    pointer: str
    test: str
    value: Any


class StatedTerms(TypedDict):
    """What a lead states: the members of ``RuleTerms``, with the slugs of queue and agent."""

    queue: str
    agent: str
    reason: str
    call: str
    bounds: NotRequired[Sequence[StatedBound]]
    max_uses: int
    ends_at: datetime
    note: str


def make_terms(person: AbstractUser, **terms: Unpack[StatedTerms]) -> RuleTerms:
    """Return the terms that a lead states. Raises ``NotFound`` for people who lead no queue, ``PayloadInvalid``."""
    led = list(permissions.led_queues(person))
    if not led:
        raise NotFound
    queue, agent = terms["queue"], terms["agent"]
    of_queue = next((it for it in led if it.slug == queue), None)
    if of_queue is None:
        raise PayloadInvalid.at("/queue", "must be a queue that you lead")
    of_agent = agents_of_queues([of_queue]).filter(slug=agent).first()
    if of_agent is None:
        raise PayloadInvalid.at("/agent", f"must be an agent that had a request in {queue}")
    stated = RuleTerms(
        queue=of_queue,
        agent=of_agent,
        reason=terms["reason"],
        call=terms["call"],
        bounds=tuple(Bound(**bound) for bound in terms.get("bounds", ())),
        max_uses=terms["max_uses"],
        ends_at=terms["ends_at"],
        note=terms["note"],
    )
    check_terms(stated, now=clock.now())
    _refuse_secret_values(stated.bounds)
    if not permissions.may_have_rules(person, of_queue, of_agent):
        raise NotPermitted(f"You own the agent {agent}, so another lead must decide its requests.")
    policy = current_policy(of_agent, stated.reason)
    if policy.standing_rules == RuleRisk.NEVER:
        raise PayloadInvalid.at("/reason", "has a policy that lets no standing rule decide (standing_rules: never)")
    return stated


def names_secret(pointer: str) -> bool:
    """Tell whether a JSON Pointer leads to a member that is named like a secret, or below one."""
    return any(is_secret_name(name) for name in pointer.split("/"))


def _refuse_secret_values(bounds: Sequence[Bound]) -> None:
    for place, bound in enumerate(bounds):
        if bound.test == "equals" and names_secret(bound.pointer):
            raise PayloadInvalid.at(
                f"/bounds/{place}/pointer",
                "must not be a member that is named like a secret: the audit log and evidence files would show its value",
            )


def preview_rule(person: AbstractUser, **terms: Unpack[StatedTerms]) -> RulePreview:
    """Return what a rule with these terms would have decided. Nothing is stored."""
    stated, now = make_terms(person, **terms), clock.now()
    policy = current_policy(stated.agent, stated.reason)
    scope = requests_in_scope(queue=stated.queue.pk, agent=stated.agent.pk, reason=stated.reason)
    waiting = scope.filter(are_free(now=now), status=InterruptStatus.WAITING, deadline__gt=now).order_by("id")
    closing = Decision.objects.filter(interrupt=OuterRef("pk"), status=DecisionStatus.ACCEPTED, closes=True)
    by_people = closing.exclude(by=None).exclude(door=standing_rules.BY_RULE)
    recent = scope.filter(run__planted=None, status=InterruptStatus.ANSWERED, closed_at__gt=now - RECENT).order_by(
        "-closed_at", "-id"
    )
    open_rows = _compared(waiting)
    closed_rows = _compared(recent.annotate(decided=Subquery(by_people.values("verdict")[:1])), "decided")

    def is_covered(row: tuple[Any, ...]) -> bool:
        _, proposal, verdicts, risk, *_ = row
        return allows_standing_rules(policy, risk) and covers(stated.call, stated.bounds, proposal, verdicts)

    allowed = set(waiting.filter(own_policy_allows()).values_list("pk", flat=True)[:COMPARED])
    people_decided = [row for row in closed_rows if row[6]]
    too_long = sum(row[1] is None for row in (*open_rows, *people_decided))
    covered = [row for row in open_rows if row[4] in allowed and is_covered(row)]
    answered = [row for row in people_decided if is_covered(row)]
    tops = {row[5] for row in (*covered, *answered)}
    objections = first_objections(tops, reason=stated.reason, call=stated.call)
    named = [row[0] for row in covered if row[5] not in objections]
    # A later objection, which may be the decision itself, would not have kept the request with people.
    decided = [row[6] for row in answered if objections.get(row[5], row[4]) >= row[4]]
    return RulePreview(
        waiting=len(named),
        waiting_compared=sum(row[1] is not None for row in open_rows),
        named=named[:NAMED],
        recent=len(decided),
        recent_compared=sum(row[1] is not None for row in people_decided),
        verdicts=dict(sorted(Counter(decided).items())),
        too_long=too_long,
        oldest=COMPARED if len(open_rows) == COMPARED else 0,
        newest=COMPARED if len(closed_rows) == COMPARED else 0,
    )


def _compared(requests: QuerySet[Interrupt], *more: str) -> list[tuple[Any, ...]]:
    shown = requests.annotate(compared=null_if_longer("proposal", LONGEST_PROPOSAL))
    shown = shown.annotate(top=Coalesce("run__root", "run"))
    return list(shown.values_list("public_id", "compared", "verdicts", "risk", "pk", "top", *more)[:COMPARED])


@transaction.atomic
def add_rule(person: AbstractUser, **terms: Unpack[StatedTerms]) -> StandingRule:
    """Add a rule. It decides the waiting requests within it, and later ones."""
    stated, now = make_terms(person, **terms), clock.now()
    lock_head()
    if rules_in_time(now=now).filter(queue=stated.queue).count() >= MAX_ACTIVE_RULES:
        raise PayloadInvalid.at(
            "/queue", f"has {MAX_ACTIVE_RULES} standing rules already; revoke one, or wait until one ends"
        )
    return standing_rules.add_rule(stated, by=person, now=now)


@transaction.atomic
def revoke_rule(person: AbstractUser, rule_id: str, *, reason: str) -> StandingRule:
    """Revoke a rule at once. A rule that was revoked before stays as it is."""
    rule = find_rule(person, rule_id)
    if not may_revoke(person, rule):
        raise NotPermitted("Leads and owners of the queue, owners of the agent and operators revoke a standing rule.")
    if not reason.strip():
        raise PayloadInvalid.at("/reason", "is missing: say why you revoke the rule")
    if len(reason) > MAX_TEXT:
        raise PayloadInvalid.at("/reason", f"must have at most {MAX_TEXT} characters")
    standing_rules.revoke_rule(rule, actor=person_actor(person), reason=reason, now=clock.now())
    return find_rule(person, rule_id)


@transaction.atomic
def revoke_by_command(rule_id: str, *, reason: str, actor: str) -> StandingRule:
    """Revoke a rule on the server itself. Raises ``StandingRule.DoesNotExist``."""
    rule = StandingRule.objects.get(public_id=rule_id)
    return standing_rules.revoke_rule(rule, actor=actor, reason=reason, now=clock.now())


def status_of(rule: Any, *, now: datetime) -> str:
    """Return what the rule is now (``STATUS_LABELS``). ``rule``: one of ``visible_rules``."""
    if rule.revoked_at is not None:
        return "revoked"
    if rule.ends_at <= now:
        return "ended"
    if (rule.used or 0) >= rule.max_uses:
        return "used_up"
    return "active" if rule.may_have else "idle"


def decisions_of(person: AbstractUser, rule: StandingRule, *, limit: int) -> list[Decision]:
    """Return the newest decisions of the rule on requests that the person can see."""
    visible = permissions.visible_interrupts(person)
    made = Decision.objects.filter(rule_use__rule=rule, interrupt__in=visible.values("pk"))
    return list(made.select_related("interrupt", "rule_use").order_by("-rule_use__number")[:limit])
