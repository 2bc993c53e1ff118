"""Plan and create the interrupts of one checkpoint, in the transaction of the suspend or ask.

The first status is written here. Every later one is written by the interrupt controller (``runs.interrupts``).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from ledger import prepared_queries, row_digests
from ledger.actors import agent_actor
from ledger.errors import PayloadInvalid
from ledger.prepared_queries import prepared
from ledger.public_ids import new_id
from ledger.trace_context import trace_parent
from ledger.transactions import assert_in_transaction
from ledger.write_batch import insert_later
from runs.checkpoints import checkpoint_digests
from runs.child_runs import policy_for
from runs.configuration_history import digest_of_record
from runs.errors import CorrelationTaken
from runs.facts import record_facts
from runs.interrupt_requests import (
    CheckAssignees,
    RequestedInterrupt,
    call_digest,
    check_schemas,
    check_verdicts,
    content_digest,
    find_people,
    get_or_create_schema,
)
from runs.interrupts import next_reminder
from runs.models import Agent, Assignee, Checkpoint, Interrupt, Run, Schema
from runs.policies import InterruptTerms, ReadPolicies, decide_terms
from runs.run_status import save_status
from runs.states import RISK_RANK, InterruptStatus, Kind
from runs.timeline import record_event


@dataclass(frozen=True, kw_only=True)
class PlannedInterrupt:
    """A requested interrupt that passed every check, with what was read for it."""

    wait: RequestedInterrupt
    at: str  # its JSON Pointer in the request
    verdicts: list[str]
    terms: InterruptTerms
    people: list[User | None]
    schema: Schema | None
    renews: tuple[int | None, int, int]  # the interrupt that it replaces, with its version and round


def plan_interrupts(
    run: Run,
    waits: list[RequestedInterrupt],
    *,
    agent: Agent,
    check_assignees: CheckAssignees,
    now: datetime,
    at: str,
    read: ReadPolicies | None = None,
) -> list[PlannedInterrupt]:
    """Check the interrupts that the locked run requests, before anything else is written. ``at``: their JSON Pointer,
    ``{}`` for the index.
    """
    return [
        _plan_interrupt(
            run, wait, agent=agent, check_assignees=check_assignees, now=now, at=at.format(place), read=read
        )
        for place, wait in enumerate(waits)
    ]


def create_interrupts(
    run: Run,
    checkpoint: Checkpoint,
    planned: list[PlannedInterrupt],
    *,
    agent: Agent,
    now: datetime,
    pk: int | None = None,
) -> list[Interrupt]:
    """Create the interrupts of one checkpoint on the locked run and store it. ``pk``: the key reserved for the first."""
    assert_in_transaction()
    keys = [pk, *[None] * len(planned)]
    interrupts = [
        _create_interrupt(run, checkpoint, plan, agent=agent, now=now, pk=key)
        for plan, key in zip(planned, keys, strict=False)
    ]
    run.open_waits = len(interrupts)
    record_event(
        run,
        "run.suspended",
        actor=agent_actor(agent.slug),
        at=now,
        checkpoint=checkpoint.number,
        **checkpoint_digests(checkpoint),
        interrupts=[interrupt.public_id for interrupt in interrupts],
        queues=[None if interrupt.queue is None else interrupt.queue.slug for interrupt in interrupts],
        # Binds each request to the rules that it was made under, also outside this database.
        policies=[digest_of_record(plan.terms.policy.recorded) for plan in planned],  # type: ignore[attr-defined]  # an annotation
    )
    save_status(run, now, waits_end=max(interrupt.deadline for interrupt in interrupts))
    return interrupts


def _plan_interrupt(
    run: Run,
    wait: RequestedInterrupt,
    *,
    agent: Agent,
    check_assignees: CheckAssignees,
    now: datetime,
    at: str,
    read: ReadPolicies | None,
) -> PlannedInterrupt:
    verdicts = check_verdicts(wait, at)
    check_schemas(wait, at)
    policy = policy_for(run, agent, wait.reason, at=at, read=read)
    schema_value = True if wait.input_schema is None else wait.input_schema
    terms = decide_terms(
        policy, wait.wish, kind=wait.kind, verdicts=verdicts, schema=schema_value, now=now, at=at, read=read
    )
    if terms.quorum > 1 and wait.input_schema is not None:
        raise PayloadInvalid.at(
            f"{at}/input_schema", "must be absent with a quorum, because only one answer can be used"
        )
    people = find_people(wait.assignees)
    check_assignees(
        people,
        queue=terms.queue,
        policy=policy,
        initiator_id=run.initiator_id,
        quorum=terms.quorum,
        at=f"{at}/assignees",
    )
    if wait.kind == Kind.EVENT:
        _refuse_used_correlation(agent, wait.correlation)
    # A run without an event is new, and has no interrupt.
    renewed = _renewed.first(run=run.pk, epoch=run.epoch, key=wait.key) if run.timeline_seq else None
    return PlannedInterrupt(
        wait=wait,
        at=at,
        verdicts=verdicts,
        terms=terms,
        people=people,
        schema=None if wait.input_schema is None else get_or_create_schema(wait.input_schema),
        renews=renewed or (None, 0, 0),
    )


def _create_interrupt(
    run: Run, checkpoint: Checkpoint, plan: PlannedInterrupt, *, agent: Agent, now: datetime, pk: int | None
) -> Interrupt:
    wait, terms, people = plan.wait, plan.terms, plan.people
    policy, schema_value = terms.policy, True if wait.input_schema is None else wait.input_schema
    renewed_pk, last_version, last_round = plan.renews
    interrupt = _insert(
        Interrupt(
            pk=pk,
            public_id=new_id("int"),
            run=run,
            agent=agent,
            checkpoint=checkpoint,
            epoch=run.epoch,
            key=wait.key,
            request_digest=wait.request_digest,
            kind=wait.kind,
            reason=wait.reason,
            queue=terms.queue,
            policy=policy,
            external_id=wait.external_id,
            title=wait.title,
            message=wait.message,
            proposal=wait.proposal,
            call_digest=call_digest(wait.proposal),
            evidence=wait.evidence,
            schema=plan.schema,
            verdicts=plan.verdicts,
            metadata=wait.metadata,
            correlation=wait.correlation,
            content_digest=content_digest(
                title=wait.title,
                message=wait.message,
                proposal=wait.proposal,
                evidence=wait.evidence,
                input_schema=schema_value,
                facts={fact.name: fact.value for fact in wait.facts},
            ),
            trace_parent=trace_parent(),
            risk=terms.risk,
            risk_rank=RISK_RANK[terms.risk],
            priority=wait.priority,
            status=InterruptStatus.WAITING,
            state_version=last_version + 1,
            round=last_round + 1,
            quorum=terms.quorum,
            deadline=terms.deadline,
            remind_at=None if terms.queue is None else next_reminder(policy, terms.deadline, now=now),
            on_expiry=terms.on_expiry,
            renews_id=renewed_pk,
            created_at=now,
        ),
        is_referenced=pk is None and bool(people or wait.facts),
    )
    row_digests.collect_written_row(run.public_id, interrupt)
    if people:
        Assignee.objects.bulk_create(Assignee(interrupt=interrupt, person_id=person.pk) for person in people if person)
    record_facts(wait.facts, agent=agent, checkpoint=checkpoint, interrupt=interrupt, at=f"{plan.at}/facts")
    return interrupt


def _refuse_used_correlation(agent: Agent, correlation: str) -> None:
    taken = Interrupt.objects.filter(agent=agent, correlation=correlation, status=InterruptStatus.WAITING)
    if taken.filter(kind=Kind.EVENT).exists():
        raise CorrelationTaken(f"Another open interrupt already receives the signals of {correlation}.")


def _insert(row: Interrupt, *, is_referenced: bool) -> Interrupt:
    """``is_referenced``: rows written next name its primary key."""
    if row.kind != Kind.EVENT:
        return prepared_queries.insert_row(row) if is_referenced else insert_later(row)
    try:
        with transaction.atomic():  # a savepoint, because two concurrent runs can ask for the same correlation
            return prepared_queries.insert_row(row)
    except IntegrityError:
        raise CorrelationTaken(f"Another open interrupt already receives the signals of {row.correlation}.") from None


@prepared
def _renewed(run: int, epoch: int, key: str) -> QuerySet[Interrupt, tuple[int, int, int]]:
    renewed = Interrupt.objects.filter(run=run, epoch=epoch, key=key, renewed=True)
    return renewed.order_by("-id").values_list("pk", "state_version", "round")[:1]
