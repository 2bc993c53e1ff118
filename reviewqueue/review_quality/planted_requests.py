"""Planted requests for the leads of a queue: plant, list and withdraw known-bad requests.

Each is a copy of an earlier request of the queue with other arguments, or is written by the lead. Reviewers cannot tell
it from the requests of the agent, so a copy is made only of a run that can be imitated: one that asked at once.
"""

from __future__ import annotations

import random
import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import AbstractUser
from django.db.models import Q, QuerySet
from django.utils.translation import gettext_noop

from ledger import clock
from ledger.digests import digest
from ledger.errors import NotFound, PayloadInvalid
from ledger.models import Effect
from ledger.transactions import use_case
from reviewqueue import permissions
from reviewqueue.models import Snooze
from reviewqueue.standing_rules.administration import agents_of_queues
from reviewqueue.standing_rules.eligibility import covers
from reviewqueue.standing_rules.unexamined import active_rules
from runs.facts import RequestedFact
from runs.interrupt_requests import RequestedInterrupt
from runs.models import Fact, Interrupt, PlantedRequest, Queue, Run, StepResult
from runs.policies import RequestedTerms
from runs.standing_rules import bounds_of
from runs.states import Kind, PlantedOutcome, Verdict
from runs.use_cases.plant_request import NewPlantedRequest, PlantedRun, plant_request, withdraw_planted

#: Verdicts that can catch the fault of a planted request.
CATCHING = (Verdict.REJECT, Verdict.RESPOND)
#: Requests of one queue that can be planted and open at the same time.
MAX_OPEN = 20
MAX_FAULT = 1_000
#: What a planted request is now, with its label.
STATUS_LABELS = {
    "open": gettext_noop("Open"),
    PlantedOutcome.CAUGHT: gettext_noop("Caught"),
    PlantedOutcome.MISSED: gettext_noop("Missed"),
    PlantedOutcome.WITHDRAWN: gettext_noop("Withdrawn"),
    PlantedOutcome.EXPIRED: gettext_noop("Withdrawn at its deadline"),
}
#: A run that asked later would be in lists before the runs that began after it: the id of its copy is newer.
_LONGEST_START = timedelta(seconds=5)
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True, kw_only=True)
class Written:
    """What a lead writes. With ``copy_of``, empty texts are those of the copied request.

    ``arguments``: of the call; ``expected``: the verdicts that catch the fault.
    """

    queue: str
    arguments: dict[str, Any]
    fault: str
    expected: Sequence[str]
    copy_of: str = ""
    agent: str = ""
    reason: str = ""
    call: str = ""
    title: str = ""
    message: str = ""


def visible_planted(person: AbstractUser) -> QuerySet[PlantedRequest]:
    """Return the planted requests that the person can list, newest first: their own, and closed ones of queues that they
    lead. Another lead of the queue may have to decide an open one.
    """
    rows = PlantedRequest.objects.select_related("queue", "planted_by", "interrupt__agent", "decision__by")
    led = permissions.led_queues(person)
    return rows.filter(Q(planted_by=person.pk) | ~Q(outcome=""), queue__in=led.values("pk")).order_by("-id")


def find_planted(person: AbstractUser, planted_id: str) -> PlantedRequest:
    """Return a planted request that the person can list. Raises ``NotFound``."""
    row = visible_planted(person).filter(public_id=planted_id).first()
    if row is None:
        raise NotFound
    return row


def may_see_outcome(person: AbstractUser, row: PlantedRequest) -> bool:
    """Tell whether the person may see the fault and the outcome: they decided it, or lead its queue."""
    decided = row.decision is not None and row.decision.by_id == person.pk
    return decided or permissions.is_lead_of(person, row.queue)


def status_of(row: PlantedRequest) -> str:
    """Return what the planted request is now (``STATUS_LABELS``)."""
    return row.outcome or "open"


def find_example(person: AbstractUser, interrupt_id: str) -> Interrupt | None:
    """Return a request of a queue that the person leads, as the example of a planted one."""
    found = permissions.visible_interrupt(person, interrupt_id) if interrupt_id else None
    if found is None or found.kind != Kind.APPROVAL or not permissions.is_lead_of(person, found.queue):
        return None
    return Interrupt.objects.select_related("queue", "agent", "run", "checkpoint", "schema", "policy").get(pk=found.pk)


def plant(person: AbstractUser, **written: Any) -> PlantedRequest:
    """Plant a request. Raises ``NotFound`` for people who lead no queue, ``PayloadInvalid`` and refusals of a request."""
    stated = Written(**written)
    led = list(permissions.led_queues(person))
    if not led:
        raise NotFound
    queue = next((it for it in led if it.slug == stated.queue), None)
    if queue is None:
        raise PayloadInvalid.at("/queue", "must be a queue that you lead")
    _check(stated)
    source = _source(person, stated.copy_of, queue) if stated.copy_of else None
    new = _from_scratch(stated, queue) if source is None else _copy(stated, source, queue)
    _refuse_recognisable(person, new)
    return find_planted(person, _plant(person, new).public_id)


@use_case
def _plant(person: AbstractUser, new: NewPlantedRequest) -> PlantedRequest:
    row = plant_request(planted_by=person, new=new, check_assignees=permissions.check_assignees)
    planted = row.interrupt
    # The lead cannot decide it, so it is not in their list of what they can decide.
    Snooze.objects.create(
        person_id=person.pk, interrupt=planted, until=planted.deadline, state_version=planted.state_version
    )
    return row


def withdraw(person: AbstractUser, planted_id: str) -> PlantedRequest:
    """Withdraw an open planted request of the person. Raises ``NotFound``, ``NotPermitted`` and refusals of a closed one."""
    row = find_planted(person, planted_id)
    withdraw_planted(planted_pk=row.pk, person=person, now=clock.now())
    return find_planted(person, planted_id)


def _check(stated: Written) -> None:
    if not stated.fault.strip():
        raise PayloadInvalid.at("/fault", "is missing: say what is wrong with the request")
    if len(stated.fault) > MAX_FAULT:
        raise PayloadInvalid.at("/fault", f"must have at most {MAX_FAULT} characters")
    if not stated.expected or not set(stated.expected) <= {*CATCHING}:
        raise PayloadInvalid.at("/expected", f"must be one or more of: {', '.join(CATCHING)}")
    if not isinstance(stated.arguments, dict):
        raise PayloadInvalid.at("/arguments", "must be an object")
    if not stated.copy_of:
        for name in ("agent", "reason", "call", "title"):
            if not getattr(stated, name).strip():
                raise PayloadInvalid.at(f"/{name}", "is missing: it is needed without a request to copy")


def _source(person: AbstractUser, interrupt_id: str, queue: Queue) -> Interrupt:
    source = find_example(person, interrupt_id)
    if source is None or source.queue_id != queue.pk:
        raise PayloadInvalid.at("/copy_of", f"must be an approval request of {queue.slug}")
    run = source.run
    has_history = (
        run.planted
        or run.parent_id is not None
        or source.renews_id is not None
        or source.checkpoint.number > 1
        or Effect.objects.filter(scope=run.public_id).exists()
        or StepResult.objects.filter(run=run).exists()
        or Run.objects.filter(parent=run).exists()
        or Interrupt.objects.filter(checkpoint=source.checkpoint_id).count() > 1
    )
    if has_history:
        raise PayloadInvalid.at(
            "/copy_of", "must be the first request of its run, before any effect: reviewers would recognise the copy"
        )
    if source.assignees.exists():
        raise PayloadInvalid.at("/copy_of", "must not be assigned: a copy is for all reviewers of the queue")
    if source.checkpoint.number and source.created_at - run.created_at > _LONGEST_START:
        seconds = int(_LONGEST_START.total_seconds())
        raise PayloadInvalid.at("/copy_of", f"must be of a run that asked within {seconds} seconds of its start")
    return source


def _copy(stated: Written, source: Interrupt, queue: Queue) -> NewPlantedRequest:
    run, proposal = source.run, source.proposal if source.as_proposed is None else source.as_proposed
    if digest(proposal["arguments"]) == digest(stated.arguments):
        raise PayloadInvalid.at("/arguments", "must differ from those of the copied request")
    facts = Fact.objects.select_related("connection").filter(interrupt=source).order_by("id")
    is_ask = source.checkpoint.number == 0
    wait = RequestedInterrupt(
        key=source.key,
        kind=Kind.APPROVAL,
        reason=source.reason,
        title=stated.title or source.title,
        message=stated.message or source.message,
        proposal=proposal | {"arguments": stated.arguments},
        input_schema=None if source.schema is None else source.schema.body,
        verdicts=list(source.verdicts),
        evidence=source.evidence,
        facts=[_requested_fact(fact) for fact in facts],
        external_id=source.external_id,
        priority=source.priority,
        metadata=source.metadata,
        request_digest=digest({"planted": str(uuid.uuid4())}),
        wish=_wish(source, queue),
    )
    before_asking = min(max(source.created_at - run.created_at, timedelta(0)), _LONGEST_START)
    like = PlantedRun(
        title=_replaced_title(run, source, wait),
        key=_similar_key(run.key),
        initiator=run.initiator,
        code_version=run.code_version,
        metadata=run.metadata,
        step=source.checkpoint.step,
        state=source.checkpoint.state,
        replay_from=source.checkpoint.replay_from,
        format=source.checkpoint.format,
        suspended_after=None if is_ask else before_asking,
    )
    return NewPlantedRequest(
        agent=source.agent,
        queue=queue,
        run=like,
        wait=wait,
        fault=stated.fault.strip(),
        expected=list(dict.fromkeys(stated.expected)),
        copied_from=source,
    )


def _wish(source: Interrupt, queue: Queue) -> RequestedTerms:
    """Return the terms that the agent stated. An escalation changed the deadline, and an amendment can have changed it."""
    shown_first = source.revisions.order_by("state_version").values_list("deadline", flat=True).first()
    lasted = (shown_first or source.deadline) - source.created_at
    is_own_deadline = source.level == 0 and lasted != source.policy.deadline_default
    return RequestedTerms(
        queue=queue.slug,
        deadline_in=lasted if is_own_deadline else None,
        on_expiry=None if source.on_expiry == {"do": source.policy.on_expiry} else source.on_expiry,
        risk=source.risk,
        quorum=source.quorum,
    )


def _replaced_title(run: Run, source: Interrupt, wait: RequestedInterrupt) -> str:
    """Return the title of the new run: an ask's run has the title of its request."""
    return wait.title if run.title == source.title else run.title


def _requested_fact(fact: Fact) -> RequestedFact:
    return RequestedFact(
        name=fact.name,
        value=fact.value,
        on_change=fact.on_change,
        kind=fact.kind,
        check_by=fact.check_by,
        connection="" if fact.connection is None else fact.connection.name,
        path=fact.path,
        pointer=fact.pointer,
    )


def _similar_key(key: str) -> str:
    """Return a key that looks like this one. It is only shown: the agent's keys stay free."""
    if _UUID.fullmatch(key):
        return str(uuid.uuid4())
    return re.sub("[0-9]", lambda _: str(random.randrange(10)), key)  # noqa: S311  not a secret


def _from_scratch(stated: Written, queue: Queue) -> NewPlantedRequest:
    agent = agents_of_queues([queue]).filter(slug=stated.agent).first()
    if agent is None:
        raise PayloadInvalid.at("/agent", f"must be an agent that had a request in {queue.slug}")
    wait = RequestedInterrupt(
        key="ask",
        kind=Kind.APPROVAL,
        reason=stated.reason,
        title=stated.title,
        message=stated.message,
        proposal={"name": stated.call, "arguments": stated.arguments},
        request_digest=digest({"planted": str(uuid.uuid4())}),
        wish=RequestedTerms(queue=queue.slug),
    )
    like = PlantedRun(title=stated.title, key=str(uuid.uuid4()))
    expected = list(dict.fromkeys(stated.expected))
    return NewPlantedRequest(
        agent=agent, queue=queue, run=like, wait=wait, fault=stated.fault.strip(), expected=expected
    )


def _refuse_recognisable(person: AbstractUser, new: NewPlantedRequest) -> None:
    """Refuse a request that no other person could decide, or that a standing rule would have decided."""
    others = permissions.deciders_of(new.queue).exclude(pk=person.pk)
    if new.run.initiator is not None:
        others = others.exclude(pk=new.run.initiator.pk)
    if not others.exists():
        raise PayloadInvalid.at("/queue", "has no other person who could decide the request")
    if PlantedRequest.objects.filter(queue=new.queue, outcome="").count() >= MAX_OPEN:
        raise PayloadInvalid.at("/queue", f"has {MAX_OPEN} open planted requests already; withdraw one, or wait")
    proposal, verdicts = new.wait.proposal, list(new.wait.verdicts or [Verdict.APPROVE])
    for rule in active_rules(now=clock.now()):
        is_in_scope = (rule.queue_id, rule.agent_id, rule.reason) == (new.queue.pk, new.agent.pk, new.wait.reason)
        if is_in_scope and covers(rule.call, bounds_of(rule), proposal, verdicts):
            raise PayloadInvalid.at(
                "/arguments", f"must be outside the standing rule {rule.public_id}, which would approve such a request"
            )
