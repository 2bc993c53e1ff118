"""Which requests a standing rule may decide. A rule is never stronger than a refusal: everything that needs a person
stays with people.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet

from reviewqueue import permissions
from reviewqueue.text.hidden_characters import warnings_in
from runs.kill_switch import open_halts
from runs.models import Assignee, Decision, Interrupt, Run, StandingRule
from runs.standing_rules import Bound, bounds_of, covers_proposal, has_ended, next_number
from runs.states import RISK_RANK, DecisionStatus, Kind, Risk, RuleRisk, Verdict


class RuleDoesNotApply(Exception):
    """The rule cannot decide this request. ``is_final``: also later it cannot, unless the request changes."""

    def __init__(self, message: str, *, is_final: bool = True) -> None:
        super().__init__(message)
        self.is_final = is_final


class RuleCannotDecide(RuleDoesNotApply):
    """The rule can decide no request now: it was revoked, has ended or is used up, or its lead cannot have it."""

    def __init__(self, message: str) -> None:
        super().__init__(message, is_final=False)


@dataclass(frozen=True, kw_only=True)
class RuleUse:
    """A locked rule, and the number that its next decision gets."""

    rule: StandingRule
    number: int


def requests_in_scope(*, queue: int, agent: int, reason: str) -> QuerySet[Interrupt]:
    """Return the requests that rules with this scope can decide by their kind, also closed ones.

    A quorum, high risk, an answer with input, an escalation (which removes assignees), and a review that was renewed
    (after a changed fact, a lost permission or an undo) need people. So do the requests of the same checkpoint, which
    the renewed review brings back.
    """
    of_scope = Interrupt.objects.filter(queue=queue, agent=agent, reason=reason, risk_rank__gt=RISK_RANK[Risk.HIGH])
    renewed = Exists(Interrupt.objects.filter(checkpoint=OuterRef("checkpoint"), round__gt=1))
    return of_scope.filter(~renewed, kind=Kind.APPROVAL, quorum=1, round=1, level=0, schema=None)


def first_objections(tops: Iterable[int], *, reason: str, call: str) -> dict[int, int]:
    """Return the first request that keeps the call with people, per topmost run of a tree (``top_of``).

    It is one that a person rejected or sent back, for the same reason and call name, or one that was renewed. The agent
    chooses the keys, so any key and any restart of the tree counts.
    """
    wanted = list(tops)
    of_trees = Interrupt.objects.filter(Q(run__in=wanted) | Q(run__root__in=wanted), reason=reason)
    refusals = Decision.objects.filter(interrupt=OuterRef("pk"), verdict__in=(Verdict.REJECT, Verdict.RESPOND))
    by_people = refusals.exclude(by=None).exclude(status__in=(DecisionStatus.DENIED, DecisionStatus.INVALID))
    renewed = of_trees.filter(Q(renewed=True) | Q(round__gt=1)).values_list("pk", "run", "run__root")
    found = list(renewed)
    refused = of_trees.filter(Exists(by_people)).values_list("pk", "run", "run__root", "proposal")
    found += [(pk, run, root) for pk, run, root, proposal in refused if covers_proposal(call, (), proposal)]
    first: dict[int, int] = {}
    for pk, run, root in found:
        top = root or run
        first[top] = min(pk, first.get(top, pk))
    return first


def top_of(run: Run) -> int:
    """Return the key of the topmost run of the tree."""
    return run.root_id or run.pk


def are_free(*, now: datetime) -> Q:
    """Return the filter for requests that no person works on: unassigned, unclaimed, of runs and agents that continue."""
    unclaimed = Q(claimed_until=None) | Q(claimed_until__lte=now)
    assigned = Exists(Assignee.objects.filter(interrupt=OuterRef("pk")))
    halted = Exists(open_halts().filter(agent=OuterRef("agent")))
    return unclaimed & ~assigned & ~halted & Q(run__pause_asked_at=None, run__ending="")


def own_policy_allows() -> Q:
    """Return the filter for requests whose own policy lets a rule decide their risk."""
    low, medium = Q(policy__standing_rules=RuleRisk.LOW), Q(policy__standing_rules=RuleRisk.MEDIUM)
    return (low & Q(risk=Risk.LOW)) | (medium & Q(risk__in=(Risk.LOW, Risk.MEDIUM)))


def covers(call: str, bounds: Iterable[Bound], proposal: Any, verdicts: list[str]) -> bool:
    """Tell whether a rule's call and bounds cover the proposal, and the request can be approved without a person.

    A person must see hidden and look-alike characters before the approval.
    """
    if Verdict.APPROVE not in verdicts or not covers_proposal(call, bounds, proposal):
        return False
    return not warnings_in([proposal["name"], proposal.get("arguments")])


def prepare_use(locked: StandingRule, run: Run, interrupt: Interrupt, *, is_assigned: bool, now: datetime) -> RuleUse:
    """Check again that the rule, locked after the run and the request, may decide the request at this time.

    Raises ``RuleDoesNotApply``, and ``RecordChanged`` if the rule differs from its record.
    """
    number = next_number(locked)
    if has_ended(locked, now=now) or number > locked.max_uses:
        raise RuleCannotDecide("The rule was revoked, has ended or is used up.")
    if not permissions.may_have_rules(locked.made_by, locked.queue, locked.agent):
        raise RuleCannotDecide("Its lead cannot have the rule any more.")
    if run.planted:
        raise RuleDoesNotApply("People decide it.")
    is_claimed = interrupt.claimed_until is not None and interrupt.claimed_until > now
    if is_assigned or is_claimed or run.pause_asked_at is not None or run.ending:
        raise RuleDoesNotApply("A person works on the request, or its run does not continue.", is_final=False)
    if open_halts().filter(agent=run.agent_id).exists():
        raise RuleDoesNotApply("Its agent is halted.", is_final=False)
    scope = requests_in_scope(queue=locked.queue_id, agent=locked.agent_id, reason=locked.reason)
    if not scope.filter(pk=interrupt.pk).exists():
        raise RuleDoesNotApply("The request is outside the rule's scope, or needs a person.")
    if not covers(locked.call, bounds_of(locked), interrupt.proposal, interrupt.verdicts):
        raise RuleDoesNotApply("The call is outside the rule's bounds, or has hidden or look-alike characters.")
    if first_objections([top_of(run)], reason=locked.reason, call=locked.call):
        raise RuleDoesNotApply("A person refused the same call in these runs, or its review was renewed.")
    if run.initiator_id == locked.made_by_id:
        raise RuleDoesNotApply("Its lead started the run.")
    if not permissions.allows_rules(interrupt):
        raise RuleDoesNotApply("The policy does not let a rule decide it.", is_final=False)
    return RuleUse(rule=locked, number=number)
