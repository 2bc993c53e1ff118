"""Permissions: who may see a request or run, and who may decide, control or assign it. No other module judges this.

Rows reach a person only through ``visible_interrupts`` and ``visible_runs``, for lists, and ``visible_interrupt``,
``visible_interrupts_of_run`` and ``visible_run``, for one request or run. ``why_not_decide`` runs before a decision
(to show the result), in the gateway's transaction, and again at the claim and at the begin of an effect
(``still_may_decide``). Roles are Django groups, read each time and never cached, so a removed role takes effect at
once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractUser, Group
from django.db.models import Exists, F, OuterRef, Q, QuerySet, Subquery, Value
from django.utils.translation import gettext as _

from ledger.errors import NotFound, PayloadInvalid, Refusal
from ledger.prepared_queries import prepared
from runs.child_runs import find_applying_policies, is_queue_allowed
from runs.errors import NoDecider, NotPermitted, SelfReview
from runs.locks import lock_run_and_found_interrupt, lock_run_and_interrupt, with_locked_run
from runs.models import Agent, Assignee, Decision, Event, Interrupt, PlantedRequest, Policy, Queue, Run
from runs.policies import allows_standing_rules
from runs.reviewer_claims import is_claimed_by_other
from runs.standing_rules import BY_RULE, find_verified_rule
from runs.states import APPROVING, Cause, DecisionStatus
from runs.use_cases.reconcile_outcomes import OPERATORS, may_resolve

_MAX_NAMED = 5


def is_operator(person: AbstractUser) -> bool:
    """Tell whether the person is an operator: sees everything, resolves outcomes and halts agents, but decides nothing."""
    return person.is_active and person.groups.filter(name=OPERATORS).exists()


def visible_interrupts(person: AbstractUser) -> QuerySet[Interrupt]:
    """Return the interrupts that the person may see: of their queues, of their agents, and of runs they started."""
    if not person.is_active:
        return Interrupt.objects.none()
    named = dict(person.groups.values_list("name", "pk"))
    if OPERATORS in named:
        return Interrupt.objects.all()
    return Interrupt.objects.filter(_visible_to(list(named.values()), person.pk))


@dataclass(frozen=True, kw_only=True)
class VisibleScope:
    """What ``visible_interrupts`` and ``visible_runs`` show a person, as primary keys, read now.

    ``everything``: an operator. Otherwise the rows of these queues and agents, and of runs that ``person`` started;
    ``None``: nothing, because the person is inactive. ``decides``: the queues of which the person is a reviewer or lead.
    """

    everything: bool = False
    queues: frozenset[int] = frozenset()
    decides: frozenset[int] = frozenset()
    agents: frozenset[int] = frozenset()
    person: int | None = None


def read_scope(person: AbstractUser) -> VisibleScope:
    """Return what the person may see now. Keep it no longer than one request."""
    return make_scope(person, list(scope_rows(person.pk))) if person.is_active else VisibleScope()


def scope_rows(person: int) -> QuerySet[Any, tuple[str, int]]:
    """Return the rows of ``make_scope`` (kind and primary key) in one statement."""
    groups = Group.objects.filter(user=person)
    operators = groups.filter(name=OPERATORS)
    queues, agents = queues_of_members(groups.values("pk")), Agent.objects.filter(owner__in=groups.values("pk"))
    decides = queues_decided_by_members(groups.values("pk"))
    rows = [
        kind.order_by().annotate(kind=Value(name)).values_list("kind", "pk")
        for name, kind in (("operators", operators), ("queue", queues), ("agent", agents), ("decides", decides))
    ]
    return rows[0].union(*rows[1:], all=True)


def make_scope(person: AbstractUser, rows: Iterable[tuple[str, int]]) -> VisibleScope:
    of_kind: dict[str, set[int]] = {"operators": set(), "queue": set(), "agent": set(), "decides": set()}
    for kind, pk in rows:
        of_kind[kind].add(pk)
    return VisibleScope(
        everything=bool(of_kind["operators"]),
        queues=frozenset(of_kind["queue"]),
        decides=frozenset(of_kind["decides"]),
        agents=frozenset(of_kind["agent"]),
        person=person.pk,
    )


def visible_interrupt(person: AbstractUser, interrupt_id: str) -> Interrupt | None:
    """Return one interrupt that the person may read, with its schema: a visible one in one statement, or one that was
    escalated away from their queue.
    """
    if not person.is_active:
        return None
    found: Interrupt | None = _visible_interrupt.first(person=person.pk, public_id=interrupt_id)
    return found or find_escalated_interrupt(person, interrupt_id)


def lock_visible_interrupt(person: AbstractUser, interrupt_id: str) -> tuple[Run, Interrupt]:
    """Lock and return the run and the interrupt as ``lock_run_and_interrupt`` does, if the person may read the interrupt.

    Locks nothing for anyone else. Raises ``NotFound``.
    """
    if not person.is_active:
        raise NotFound
    try:
        return lock_run_and_found_interrupt(_locked_visible_interrupt, person=person.pk, public_id=interrupt_id)
    except NotFound:
        escalated = find_escalated_interrupt(person, interrupt_id)
        if escalated is None:
            raise
        return lock_run_and_interrupt(escalated.pk)


def find_escalated_interrupt(person: AbstractUser, interrupt_id: str) -> Interrupt | None:
    """Return an interrupt that was escalated away from a queue of the person; ``None`` for any other.

    Its people keep read access by its id, because they worked on it. It leaves their lists, and they cannot decide it.
    """
    escalated = Interrupt.objects.filter(public_id=interrupt_id, level__gt=0).select_related("schema")
    interrupt = escalated.first() if person.is_active else None
    if interrupt is None:
        return None
    return interrupt if interrupt_id in _escalated_away(person, interrupt.run_id) else None


def visible_interrupts_of_run(person: AbstractUser, run: Run) -> QuerySet[Interrupt]:
    """Return the interrupts of a run that the person may read, also those escalated away from their queues."""
    visible = visible_interrupts(person).filter(run=run)
    escalated = _escalated_away(person, run.pk)
    if not escalated:
        return visible
    either = Q(pk__in=visible.values("pk")) | Q(public_id__in=escalated)
    return Interrupt.objects.filter(either, run=run)


def visible_run(person: AbstractUser, run_id: str) -> QuerySet[Run]:
    """Return the run with this id if the person may read it, also behind an interrupt escalated away from their queue."""
    visible = visible_runs(person).filter(public_id=run_id)
    if not person.is_active or visible.exists():
        return visible
    runs = Run.objects.filter(public_id=run_id)
    run = runs.values_list("pk", flat=True).first()
    return runs if run is not None and _escalated_away(person, run) else visible


def _escalated_away(person: AbstractUser, run: int) -> set[str]:
    """Return the public ids of the run's interrupts that a queue of the person had before an escalation."""
    events = Event.objects.filter(run=run, type="interrupt.escalated").values_list("refs", flat=True)
    escalations = [(refs["interrupt"], refs["before"]) for refs in events if refs["before"]]
    if not escalations or not person.is_active:
        return set()
    named = {queue for __, queue in escalations}
    groups = list(person.groups.values_list("pk", flat=True))
    theirs = set(queues_of_members(groups).filter(slug__in=named).values_list("slug", flat=True))
    return {interrupt for interrupt, queue in escalations if queue in theirs}


def _visible_to(groups: Any, person_id: Any) -> Q:
    """Return the filter for what members of these groups may see.

    It has no joins: the inbox reads its index in order and looks each row up in three short lists.
    """
    agents, started = Agent.objects.filter(owner__in=groups), Run.objects.filter(initiator=person_id)
    return Q(queue__in=queues_of_members(groups)) | Q(agent__in=agents) | Q(run__in=started)


@prepared
def _visible_interrupt(person: int, public_id: str) -> QuerySet[Interrupt]:
    return _visible_by_id(person, public_id).select_related("schema")


@prepared
def _locked_visible_interrupt(person: int, public_id: str) -> QuerySet[Interrupt]:
    return with_locked_run(_visible_by_id(person, public_id))


def _visible_by_id(person: Any, public_id: Any) -> QuerySet[Interrupt]:
    groups = Group.objects.filter(user=person)
    may_see = Exists(groups.filter(name=OPERATORS)) | _visible_to(groups.values("pk"), person)
    return Interrupt.objects.filter(may_see, public_id=public_id)


def visible_runs(person: AbstractUser) -> QuerySet[Run]:
    """Return the runs that the person may see: started by them, of their agents, and behind a visible interrupt."""
    if not person.is_active:
        return Run.objects.none()
    named = dict(person.groups.values_list("name", "pk"))
    if OPERATORS in named:
        return Run.objects.all()
    groups = list(named.values())
    # For the few runs that other conditions leave; a list reads `queries/visible_ranges.py`.
    behind = Exists(Interrupt.objects.filter(run=OuterRef("pk"), queue__in=queues_of_members(groups)))
    return Run.objects.filter(Q(initiator=person.pk) | Q(agent__owner__in=groups) | behind)


def visible_queues(person: AbstractUser) -> QuerySet[Queue]:
    """Return the queues that the person belongs to; an operator has all."""
    groups = dict(person.groups.values_list("name", "pk")) if person.is_active else {}
    return Queue.objects.all() if OPERATORS in groups else queues_of_members(list(groups.values()))


def queues_of(person: AbstractUser) -> QuerySet[Queue]:
    """Return the queues of which the person is a reviewer, lead or auditor, without a statement of its own."""
    return queues_of_members(Group.objects.filter(user=person.pk, user__is_active=True).values("pk"))


def visible_agents(person: AbstractUser) -> QuerySet[Agent]:
    """Return the agents that the person's groups own; an operator has all."""
    groups = dict(person.groups.values_list("name", "pk")) if person.is_active else {}
    return Agent.objects.all() if OPERATORS in groups else Agent.objects.filter(owner__in=groups.values())


def queues_of_members(groups: Any) -> QuerySet[Queue]:
    """Return the queues that members of these groups belong to, in any role."""
    return Queue.objects.filter(Q(reviewers__in=groups) | Q(leads__in=groups) | Q(auditors__in=groups))


def queues_decided_by(person: AbstractUser) -> QuerySet[Queue]:
    """Return the queues in which the person is a reviewer or lead."""
    return queues_decided_by_members(list(person.groups.values_list("pk", flat=True)) if person.is_active else [])


def queues_decided_by_members(groups: Any) -> QuerySet[Queue]:
    """Return the queues in which members of these groups are reviewers or leads."""
    return Queue.objects.filter(Q(reviewers__in=groups) | Q(leads__in=groups))


class DecisionRights(NamedTuple):
    """What decides whether a person may decide an interrupt, in the order of ``decision_rights``."""

    is_member: bool
    is_assigned: bool
    is_theirs: bool
    has_newer_policy: bool


def why_not_decide(person: AbstractUser, interrupt: Interrupt, rights: DecisionRights | None = None) -> Refusal | None:
    """Return why this person cannot decide this interrupt, apart from claims; or ``None``.

    The interrupt's own policy and the current one must both allow it: a stricter policy applies at once, a looser one
    does not weaken an open request. If no assignee has the permission any more, the leads of the queue may decide.
    ``rights``: as this transaction has read them after the lock.
    """
    return _why_not(person, interrupt, rights, has_decided=False)


def _why_not(
    person: AbstractUser, interrupt: Interrupt, rights: DecisionRights | None = None, *, has_decided: bool
) -> Refusal | None:
    """``has_decided``: a lead's own decision stays valid when others are assigned later, because leads assign."""
    if not person.is_active:
        return NotPermitted(_("Your account is disabled."))
    if interrupt.queue_id is None:
        return NotPermitted(_("No person decides this request: it waits for a timer or a signal."))
    rights = rights or DecisionRights._make(_rights_on.all(interrupt=interrupt.pk, person=person.pk)[0])
    if not rights.is_member:
        return NotPermitted(
            _("You are not a reviewer of {queue}.").format(queue=interrupt.queue), who_can=who_can_decide(interrupt)
        )
    if rights.has_newer_policy and not is_queue_allowed(interrupt, interrupt.queue):
        return NotPermitted(
            _("The policy of {reason} no longer allows decisions in {queue}.").format(
                reason=interrupt.reason, queue=interrupt.queue
            ),
            who_can=[],
        )
    if rights.is_assigned and not rights.is_theirs:
        may_lead = is_lead_of(person, interrupt.queue)
        if not (may_lead and (has_decided or not _assignees_who_may_decide(interrupt).exists())):
            return NotPermitted(_("This request is assigned to another reviewer."), who_can=who_can_decide(interrupt))
    if interrupt.run.initiator_id == person.pk and not _self_review_allowed(interrupt):
        return SelfReview(who_can=who_can_decide(interrupt))
    if interrupt.run.planted and PlantedRequest.objects.filter(interrupt=interrupt.pk, planted_by=person.pk).exists():
        return NotPermitted("You planted this request, so another person must decide it.", who_can=[])
    return None


def _groups_in_queue(person: Any, reviewers: Any, leads: Any) -> QuerySet[Group]:
    of_queue = Q(pk=reviewers) | Q(pk=leads)
    # Read again, because the person may have been deactivated since this HTTP request loaded them.
    return Group.objects.filter(of_queue, user=person, user__is_active=True)


def decision_rights(person: Any) -> list[Exists]:
    """Return the columns of ``DecisionRights`` for a query of interrupts that is executed under the lock: is the person
    in the queue, is the request assigned, to them, and is there a newer policy?
    """
    in_queue = _groups_in_queue(person, OuterRef("queue__reviewers"), OuterRef("queue__leads"))
    assigned = Assignee.objects.filter(interrupt=OuterRef("pk"))
    theirs = assigned.filter(person=person, released_at=None)
    newer = Policy.objects.filter(reason=OuterRef("reason"), pk__gt=OuterRef("policy"))
    return [Exists(in_queue), Exists(assigned), Exists(theirs), Exists(newer)]


@prepared
def _rights_on(person: int, interrupt: int) -> QuerySet[Any, tuple[Any, ...]]:
    return Interrupt.objects.filter(pk=interrupt).values_list(*decision_rights(person))


@prepared
def _membership(person: int, reviewers: int, leads: int) -> QuerySet[Group, tuple[int]]:
    return _groups_in_queue(person, reviewers, leads).values_list("pk")


def still_may_decide(decision: Decision) -> bool:
    """Tell whether an accepted decision is still authorised: by its person, or by the policy if the deadline approved.

    Person, queue and policy come with the decision, read under the run's lock. Timers, signals and defaults that allow
    no call need no permission.
    """
    interrupt = decision.interrupt
    if decision.by is None:
        approved_by_default = decision.cause == Cause.EXPIRY and decision.verdict in APPROVING
        return not approved_by_default or _default_may_approve(interrupt)
    if decision.door == BY_RULE and not _rule_still_allows(decision):
        return False
    if interrupt.quorum > 1:
        return vote_still_counts(decision)
    return _why_not(decision.by, interrupt, has_decided=True) is None


def may_have_rules(person: AbstractUser, queue: Queue | None, agent: Agent) -> bool:
    """Tell whether the person may decide requests of the agent in this queue by a standing rule: a lead of the queue
    who does not own the agent.
    """
    return is_lead_of(person, queue) and not person.groups.filter(pk=agent.owner_id).exists()


def maker_may_have_rule() -> Q:
    """Return the same as a filter of standing rules, for the lead who made each."""
    groups = get_user_model().groups.through.objects.filter(user=OuterRef("made_by"))
    leads, owns = groups.filter(group=OuterRef("queue__leads")), groups.filter(group=OuterRef("agent__owner"))
    return Q(Exists(leads), ~Exists(owns), made_by__is_active=True)


def allows_rules(interrupt: Interrupt) -> bool:
    """Tell whether the interrupt's own policy and the current ones let a standing rule decide a request of its risk."""
    return all(allows_standing_rules(it, interrupt.risk) for it in [interrupt.policy, *_policies_now(interrupt)])


def _rule_still_allows(decision: Decision) -> bool:
    """Tell whether the standing rule behind a decision was not revoked, and its lead may still have it."""
    rule = find_verified_rule(decision)
    if rule is None or not may_have_rules(rule.made_by, rule.queue, rule.agent):
        return False
    return allows_rules(decision.interrupt)


def vote_still_counts(vote: Decision) -> bool:
    """Tell whether a vote still counts: its person may decide in the current queue, or in the queue in which they
    voted. A later assignment does not remove a vote.
    """
    person, interrupt = vote.by, vote.interrupt
    if person is None or not person.is_active:
        return False
    if interrupt.run.initiator_id == person.pk and not _self_review_allowed(interrupt):
        return False
    if not is_queue_allowed(interrupt, vote.queue or interrupt.queue):
        return False
    return any(queue is not None and _is_member(person, queue) for queue in (interrupt.queue, vote.queue))


def _is_member(person: AbstractUser, queue: Queue) -> bool:
    return bool(_membership.all(person=person.pk, reviewers=queue.reviewers_id, leads=queue.leads_id))


def who_can_decide(interrupt: Interrupt) -> list[str]:
    """Return the addresses of people who may decide this interrupt, at most 20."""
    return list(people_who_can_decide(interrupt).values_list("username", flat=True)[:20])


def people_who_can_decide(interrupt: Interrupt) -> QuerySet[AbstractUser]:
    """Return the people who may decide this interrupt: its assignees, or else the queue's reviewers and leads."""
    able = _exclude_initiator(deciders_of(interrupt.queue), interrupt)
    if interrupt.queue is None or not interrupt.assignees.exists():
        return able
    assigned = _assignees_who_may_decide(interrupt)
    return assigned if assigned.exists() else able.filter(groups=interrupt.queue.leads_id)


def _assignees_who_may_decide(interrupt: Interrupt) -> QuerySet[AbstractUser]:
    """Return the assignees who may decide the interrupt."""
    assigned = interrupt.assignees.filter(released_at=None).values("person")
    people = deciders_of(interrupt.queue).filter(pk__in=assigned)
    if interrupt.run.planted:
        planters = PlantedRequest.objects.filter(interrupt=interrupt.pk).values("planted_by")
        people = people.exclude(pk__in=planters)
    return _exclude_initiator(people, interrupt)


def _exclude_initiator(people: QuerySet[AbstractUser], interrupt: Interrupt) -> QuerySet[AbstractUser]:
    initiator = interrupt.run.initiator_id
    is_excluded = initiator is not None and not _self_review_allowed(interrupt)
    return people.exclude(pk=initiator) if is_excluded else people


def deciders_of(queue: Queue | None) -> QuerySet[AbstractUser]:
    """Return the active reviewers and leads of a queue; none for interrupts without a queue."""
    if queue is None:
        return get_user_model().objects.none()
    people = get_user_model().objects.filter(is_active=True, groups__in=[queue.reviewers_id, queue.leads_id])
    return people.distinct().order_by("username")


def why_not_control(person: AbstractUser, run: Run) -> Refusal | None:
    """Return why this person cannot pause, resume or cancel the run. Its initiator, owners of its agent and operators
    may.
    """
    if person.is_active and (run.initiator_id == person.pk or is_owner_or_operator(person, run.agent)):
        return None
    return NotPermitted(_("Only the initiator of this run, owners of its agent and operators can control it."))


def why_not_restart(person: AbstractUser, run: Run) -> Refusal | None:
    """Return why this person cannot restart the run. Owners who did not start it and operators may."""
    operates = is_operator(person)
    answers = operates or is_owner_or_operator(person, run.agent)
    return _why_not_restart(person, run, operates=operates, answers=answers)


def _why_not_restart(person: AbstractUser, run: Run, *, operates: bool, answers: bool) -> Refusal | None:
    if run.initiator_id == person.pk and not operates:
        return NotPermitted(_("You started this run, so another owner must restart it."))
    return None if answers else NotPermitted(_("Only owners of the agent and operators can restart this run."))


def why_not_restart_each(person: AbstractUser, runs: Iterable[Run]) -> dict[int, Refusal | None]:
    """Return the same for each run by its primary key, in a constant number of statements."""
    operates, theirs = is_operator(person), set(owned_agents(person).values_list("pk", flat=True))
    return {run.pk: _why_not_restart(person, run, operates=operates, answers=run.agent_id in theirs) for run in runs}


def who_can_restart(runs: Iterable[Run]) -> dict[int, list[str]]:
    """Return who may restart each run, by its primary key: owners of the agent, then operators, up to five."""
    runs = list(runs)
    able = get_user_model().objects.filter(is_active=True).order_by("username")
    owning = {run.agent.owner_id for run in runs}
    members = list(able.filter(groups__in=owning).values_list("groups", "pk", "username")) if owning else []
    operators = list(able.filter(groups__name=OPERATORS).values_list("username", flat=True)[:_MAX_NAMED])
    named = {}
    for run in runs:
        owners = [name for group, pk, name in members if group == run.agent.owner_id and pk != run.initiator_id]
        named[run.pk] = list(dict.fromkeys([*owners, *operators]))[:_MAX_NAMED]
    return named


def why_not_retag(person: AbstractUser, run: Run) -> Refusal | None:
    """Return why this person cannot assign the run to another code version. Owners of its agent and operators may."""
    if is_owner_or_operator(person, run.agent):
        return None
    return NotPermitted(_("Only owners of the agent and operators can assign a run to another code version."))


def make_control_check(person: AbstractUser) -> Callable[[Run], None]:
    """Return the check for pause, resume and cancel under the run's lock. A run that the person cannot see is not
    found.
    """
    return _check_of(person, why_not_control)


def make_restart_check(person: AbstractUser) -> Callable[[Run], None]:
    """Return the check for a restart under the run's lock."""
    return _check_of(person, why_not_restart)


def make_retag_check(person: AbstractUser) -> Callable[[Run], None]:
    """Return the check for a retag under the run's lock."""
    return _check_of(person, why_not_retag)


def _check_of(person: AbstractUser, why_not: Callable[[AbstractUser, Run], Refusal | None]) -> Callable[[Run], None]:
    visible = visible_runs(person)

    def check(run: Run) -> None:
        if not visible.filter(pk=run.pk).exists():
            raise NotFound
        refusal = why_not(person, run)
        if refusal is not None:
            raise refusal

    return check


def why_not_halt(person: AbstractUser, agent: Agent | None) -> Refusal | None:
    """Return why this person cannot halt the agent (``None``: every agent). Its owners and operators may."""
    if is_operator(person) or (agent is not None and is_owner_or_operator(person, agent)):
        return None
    return NotPermitted(
        _("Only operators can halt every agent.")
        if agent is None
        else _("Only owners of the agent and operators can halt it.")
    )


def why_not_lift(person: AbstractUser, agent: Agent | None) -> Refusal | None:
    """Return why this person cannot lift a halt. Only operators may."""
    return None if is_operator(person) else NotPermitted(_("Only operators can lift a halt."))


def owned_agents(person: AbstractUser) -> QuerySet[Agent]:
    """Return the agents that the person owns; for an operator, all agents."""
    if not person.is_active:
        return Agent.objects.none()
    return Agent.objects.all() if is_operator(person) else Agent.objects.filter(owner__user=person.pk)


def owned_queues(person: AbstractUser) -> QuerySet[Queue]:
    """Return the queues that the person's groups own; for an operator, all queues."""
    if not person.is_active:
        return Queue.objects.none()
    return Queue.objects.all() if is_operator(person) else Queue.objects.filter(owner__user=person.pk)


def is_owner_or_operator(person: AbstractUser, agent: Agent) -> bool:
    """Tell whether the person owns the agent, or is an operator."""
    return may_resolve(person, owner_id=agent.owner_id)


def may_waive_fact(person: AbstractUser, run: Run) -> bool:
    """Tell whether the person may waive a fact of the run: an owner of its agent or an operator, but not its initiator."""
    return is_owner_or_operator(person, run.agent) and run.initiator_id != person.pk


def is_claimed_by_other_reviewer(interrupt: Interrupt, person: AbstractUser, *, now: datetime) -> bool:
    """Tell whether another person's claim blocks this one. The claim of a person without permission does not."""
    return is_claimed_by_other(interrupt, person, now=now) and claimant_may_decide(interrupt)


def claimant_may_decide(interrupt: Interrupt) -> bool:
    """Tell whether the person who claimed the interrupt may still decide it."""
    holder = interrupt.claimed_by
    return holder is not None and why_not_decide(holder, interrupt) is None


def lost_claims() -> Q:
    """Return the filter for interrupts claimed by a person who is inactive or no longer in the queue."""
    return Q(claimed_by__isnull=False) & ~Q(Exists(_queue_of_decider("claimed_by", to="")))


def lost_assignments() -> QuerySet[Assignee]:
    """Return, in a query of interrupts, the assignments of each to people who may no longer decide it."""
    assigned = Assignee.objects.filter(interrupt=OuterRef("pk"), released_at=None)
    return assigned.filter(~Exists(_queue_of_decider("person", to="interrupt__")))


def lost_votes() -> QuerySet[Decision]:
    """Return, in a query of interrupts, the pending votes of each that no longer count."""
    counted = Decision.objects.filter(interrupt=OuterRef("pk"), status=DecisionStatus.COUNTED)
    now, then = (
        _queue_of_decider("by", to="interrupt__"),
        _queue_of_decider("by", to="", of="queue"),
    )
    return counted.filter(~Exists(now), ~Exists(then))


def is_stuck() -> Q:
    """Return the filter for interrupts that no assignee may decide: a lead must act.

    An assignee who started the run counts only if both the interrupt's policy and the current one allow self-review.
    """
    assigned = Assignee.objects.filter(interrupt=OuterRef("pk"))
    able = assigned.filter(Exists(_queue_of_decider("person", to="interrupt__")), released_at=None)
    started = Run.objects.filter(pk=OuterRef("interrupt__run"), initiator=OuterRef("person"))
    able = able.filter(Q(~Exists(started)) | allows_self_review(to="interrupt__"))
    return Q(Exists(assigned)) & ~Q(Exists(able))


def allows_self_review(*, to: str = "") -> Q:
    """Return the filter for interrupts, or rows that reference one by ``to``, whose initiator may decide them.

    Their own policy and the newest one of their agent or of every agent must allow it. A policy that a child run
    inherits is not read here, only by ``why_not_decide``.
    """
    own = Policy.objects.filter(pk=OuterRef(f"{to}policy"), self_review=True)
    of_agent = Q(agent=OuterRef(f"{to}agent")) | Q(agent=None)
    current = Policy.objects.filter(of_agent, reason=OuterRef(f"{to}reason"))
    newest = current.order_by(F("agent").desc(nulls_last=True), "-version").values("self_review")[:1]
    return Q(Exists(own)) & Q(Subquery(newest))


def _queue_of_decider(person: str, *, to: str, of: str = "queue") -> QuerySet[Queue]:
    """Return, in a query of rows that reference a queue by ``to`` and ``of``, that queue if the person may decide in
    it.

    The row's column ``person`` names the person, who must be active. Only ids of the row are read, so that no list of
    interrupts joins queues.
    """
    memberships = get_user_model().groups.through.objects.filter(user=OuterRef(OuterRef(person)), user__is_active=True)
    decides = Exists(memberships.filter(group=OuterRef("reviewers"))) | Exists(
        memberships.filter(group=OuterRef("leads"))
    )
    return Queue.objects.filter(decides, pk=OuterRef(f"{to}{of}_id"))


def led_queues(person: AbstractUser) -> QuerySet[Queue]:
    """Return the queues that the person leads, by name."""
    return Queue.objects.filter(leads__user=person.pk, leads__user__is_active=True).order_by("slug")


def is_lead_of(person: AbstractUser, queue: Queue | None) -> bool:
    """Tell whether the person is a lead of the queue, who may take over claims, assign and extend."""
    return queue is not None and person.is_active and person.groups.filter(pk=queue.leads_id).exists()


def check_assignees(
    people: Sequence[AbstractUser | None],
    *,
    queue: Queue | None,
    policy: Policy,
    initiator_id: int | None,
    at: str,
    quorum: int = 1,
) -> None:
    """Refuse assignees of a new interrupt who cannot decide it, and a quorum that the assignees cannot reach.

    ``at`` is the JSON Pointer of the assignees in the request. ``None`` is an unknown address: it gets the same answer
    as a person without permission, so that no refusal reveals known addresses.
    """
    if queue is None or (not people and quorum == 1):
        return
    able = set(deciders_of(queue).values_list("pk", flat=True))
    assigned = {person.pk for person in people if person is not None}
    for place, person in enumerate(people):
        if person is None or person.pk not in able:
            raise PayloadInvalid.at(f"{at}/{place}", _("must be a reviewer or lead of {slug}").format(slug=queue.slug))
    if not policy.self_review and assigned == {initiator_id}:
        raise NoDecider(_("The only assignee started the run and cannot review it."))
    able_pks = assigned or able
    able_pks -= set() if policy.self_review else {initiator_id}
    if len(able_pks) < quorum:
        raise NoDecider(
            _("The quorum is {quorum} approvals, but only {number} of the reviewers can approve this.").format(
                quorum=quorum, number=len(able_pks)
            )
        )


def _self_review_allowed(interrupt: Interrupt) -> bool:
    return interrupt.policy.self_review and all(policy.self_review for policy in _policies_now(interrupt))


def _default_may_approve(interrupt: Interrupt) -> bool:
    return interrupt.policy.default_may_approve and all(
        policy.default_may_approve for policy in _policies_now(interrupt)
    )


def _policies_now(interrupt: Interrupt) -> list[Policy]:
    found = find_applying_policies(interrupt.run, interrupt.agent, interrupt.reason)
    return [policy for policy in found if policy is not None]
