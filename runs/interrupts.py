"""INTERRUPT CONTROLLER: durable waits, from the question to its answer.

Sole writer of ``Interrupt.status`` and of ``Run.open_waits``. Every verb works on a run and an interrupt that the caller has
locked, in that order: ``suspending`` opens, the gateway answers, ``expiry`` expires, ``checking`` renews. Who may answer is
judged elsewhere.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractBaseUser

from ledger import compiled
from ledger.canonical import digest
from ledger.compiled import Compiled, CompiledUpdate
from ledger.errors import PayloadInvalid, Problem
from ledger.exact import dumps
from ledger.public_ids import new_id
from ledger.transactions import assert_open
from runs import schemas
from runs.continuations import make_continuation, void_continuation
from runs.decisions import Answer, approved_call, move_decisions, record_decision, schema_of
from runs.errors import SchemaUnsupported
from runs.facts import AskedFact, has_something_to_check, record_facts
from runs.models import Agent, Assignee, Checkpoint, Continuation, Decision, Interrupt, Queue, Run, Schema
from runs.permits import make_permit, void_permits
from runs.policies import Wish, current_policy, settle_terms
from runs.standing import store
from runs.states import (
    INTERRUPT_MOVES,
    RISK_RANK,
    VERDICTS_OF,
    Cause,
    DecisionStatus,
    InterruptStatus,
    Kind,
    ResumeWhen,
)
from runs.timeline import note


@dataclass(frozen=True, kw_only=True)
class AskedWait:
    """One wait as the agent asks for it. ``request_digest`` covers the request without its deadline: a replaying worker
    computes that anew, and still asks the same thing."""

    key: str
    kind: str
    reason: str
    title: str
    request_digest: str
    message: str = ""
    proposal: dict[str, Any] | None = None
    input_schema: Any = None
    verdicts: list[str] | None = None
    assignees: list[str] = field(default_factory=list)
    evidence: list[Any] = field(default_factory=list)
    facts: list[AskedFact] = field(default_factory=list)
    external_id: str = ""
    priority: int = 50
    metadata: dict[str, Any] = field(default_factory=dict)
    wish: Wish = field(default_factory=Wish)


#: Asks the layer that knows people: refuses assignees who could not decide, by their JSON Pointer.
CheckAssignees = Callable[..., None]


def open_waits(
    run: Run,
    checkpoint: Checkpoint,
    waits: list[AskedWait],
    *,
    agent: Agent,
    check_assignees: CheckAssignees,
    now: datetime,
    at: str,
) -> list[Interrupt]:
    """Open the waits of one boundary on the locked run and store it. ``at``: their JSON Pointer, ``{}`` for the number."""
    assert_open()
    opened = [
        _open_wait(run, checkpoint, wait, agent=agent, check_assignees=check_assignees, now=now, at=at.format(place))
        for place, wait in enumerate(waits)
    ]
    run.open_waits = len(opened)
    note(
        run,
        "run.suspended",
        actor=f"agent:{agent.slug}",
        at=now,
        checkpoint=checkpoint.number,
        digest=checkpoint.digest,
        interrupts=[interrupt.public_id for interrupt in opened],
    )
    store(run, now, waits_end=max(interrupt.deadline for interrupt in opened))
    return opened


def _open_wait(
    run: Run,
    checkpoint: Checkpoint,
    wait: AskedWait,
    *,
    agent: Agent,
    check_assignees: CheckAssignees,
    now: datetime,
    at: str,
) -> Interrupt:
    verdicts = _verdicts(wait, at)
    _check_schemas(wait, at)
    policy = current_policy(agent, wait.reason, at=at)
    schema_value = True if wait.input_schema is None else wait.input_schema
    terms = settle_terms(policy, wait.wish, verdicts=verdicts, schema=schema_value, now=now, at=at)
    people = _assignees(wait.assignees, at)
    check_assignees(people, queue=terms.queue, policy=policy, initiator_id=run.initiator_id, at=f"{at}/assignees")
    before, version, round_before = _RENEWED.first(run=run.pk, epoch=run.epoch, key=wait.key) or (None, 0, 0)
    interrupt = compiled.insert(
        Interrupt(
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
            evidence=wait.evidence,
            schema=None if wait.input_schema is None else _stored_schema(wait.input_schema),
            verdicts=verdicts,
            metadata=wait.metadata,
            content_digest=content_digest(
                title=wait.title,
                message=wait.message,
                proposal=wait.proposal,
                evidence=wait.evidence,
                input_schema=schema_value,
                facts={fact.name: fact.value for fact in wait.facts},
            ),
            risk=terms.risk,
            risk_rank=RISK_RANK[terms.risk],
            priority=wait.priority,
            status=InterruptStatus.WAITING,
            state_version=version + 1,
            round=round_before + 1,
            deadline=terms.deadline,
            on_expiry=terms.on_expiry,
            renews_id=before,
            created_at=now,
        )
    )
    Assignee.objects.bulk_create(Assignee(interrupt=interrupt, person_id=person.pk) for person in people)
    record_facts(wait.facts, agent=agent, checkpoint=checkpoint, interrupt=interrupt, at=f"{at}/facts")
    return interrupt


_RENEWED = Compiled(
    lambda: (
        Interrupt.objects.filter(
            run=compiled.number("run"), epoch=compiled.number("epoch"), key=compiled.text("key"), renewed=True
        )
        .order_by("-id")
        .values_list("pk", "state_version", "round")[:1]
    )
)


def content_digest(
    *, title: str, message: str, proposal: Any, evidence: Any, input_schema: Any, facts: dict[str, Any]
) -> str:
    """Return the digest of what a reviewer is shown; an answer to anything else is stale."""
    shown = {"title": title, "message": message, "proposal": proposal, "evidence": evidence}
    return digest(shown | {"input_schema": input_schema, "facts": facts})


def digest_of(interrupt: Interrupt) -> str:
    """Return the content digest of a stored wait."""
    return content_digest(
        title=interrupt.title,
        message=interrupt.message,
        proposal=interrupt.proposal,
        evidence=interrupt.evidence,
        input_schema=schema_of(interrupt),
        facts={fact.name: fact.value for fact in interrupt.facts.all()},
    )


def _verdicts(wait: AskedWait, at: str) -> list[str]:
    possible = VERDICTS_OF[wait.kind]
    if wait.kind == Kind.APPROVAL and wait.proposal is None:
        raise PayloadInvalid.at(f"{at}/proposal", "is missing: an approval is of one exact call")
    for place, verdict in enumerate(wait.verdicts or []):
        if verdict not in possible:
            raise PayloadInvalid.at(f"{at}/verdicts/{place}", f"does not fit {wait.kind}: {', '.join(possible)}")
    if wait.verdicts == []:
        raise PayloadInvalid.at(f"{at}/verdicts", "leaves nothing to say")
    return list(dict.fromkeys(wait.verdicts or possible))


def _check_schemas(wait: AskedWait, at: str) -> None:
    if wait.input_schema is not None:
        _check_schema(wait.input_schema, f"{at}/input_schema")
    check_proposal(wait.proposal, at)


def check_proposal(proposal: Any, at: str) -> None:
    """Refuse a proposed call that does not fit the schema it brings for its own arguments."""
    if proposal is not None and "schema" in proposal:
        _check_schema(proposal["schema"], f"{at}/proposal/schema")
        problems = schemas.validate(proposal["schema"], proposal["arguments"])
        if problems:
            raise PayloadInvalid(
                "The proposed call does not fit its own schema.",
                errors=[Problem(f"{at}/proposal/arguments{it.pointer}", it.message) for it in problems],
            )


def _check_schema(body: Any, at: str) -> None:
    try:
        schemas.check_schema(body)
    except SchemaUnsupported as refused:
        errors = [Problem(at + problem.pointer, problem.message) for problem in refused.errors]
        raise SchemaUnsupported(refused.detail, errors=errors) from None


def _assignees(addresses: list[str], at: str) -> list[AbstractBaseUser]:
    if not addresses:
        return []
    people = {person.get_username(): person for person in get_user_model().objects.filter(username__in=addresses)}
    for place, address in enumerate(addresses):
        if address not in people:
            raise PayloadInvalid.at(f"{at}/assignees/{place}", "is nobody here")
    return list(people.values())


def _stored_schema(body: Any) -> Schema:
    """Return the row of a schema; kept by the digest of its exact text, so that two spellings stay two."""
    stored, _ = Schema.objects.get_or_create(digest=digest(dumps(body)), defaults={"body": body})
    return stored


# --- moves on a locked run and interrupt ----------------------------------------------------------------------------


def answer_interrupt(
    run: Run,
    interrupt: Interrupt,
    decision: Decision,
    answer: Answer,
    *,
    now: datetime,
    not_before: datetime | None = None,
) -> Continuation | None:
    """Close the wait with its accepted answer: permit, and the continuation when nothing else is awaited."""
    call = approved_call(interrupt, answer)
    if call is not None:
        make_permit(decision, run=run, call=call, valid_until=now + interrupt.policy.permit_ttl)
    _close(run, interrupt, "answer", now=now)
    return _go_on(run, interrupt, cause=Cause.PERSON, now=now, not_before=not_before)


def answer_at_expiry(
    run: Run, interrupt: Interrupt, answer: Answer, *, now: datetime
) -> tuple[Decision, Continuation | None]:
    """Close the wait at its deadline with the stored default, or with no verdict for an agent that copes with that."""
    decision = record_decision(interrupt, answer, by=None, status=DecisionStatus.ACCEPTED, cause=Cause.EXPIRY, now=now)
    call = approved_call(interrupt, answer)
    if call is not None:
        make_permit(decision, run=run, call=call, valid_until=now + interrupt.policy.permit_ttl)
    _close(run, interrupt, "expire", now=now)
    return decision, _go_on(run, interrupt, cause=Cause.EXPIRY, now=now)


def close_expired(run: Run, interrupt: Interrupt, *, now: datetime) -> None:
    """Close the wait unanswered; the caller ends the run, unless a sibling may still be answered."""
    _close(run, interrupt, "expire", now=now)


def withdraw_interrupt(run: Run, interrupt: Interrupt, *, now: datetime) -> Continuation | None:
    """Close the wait because its agent took it back; the last open one of its run wakes the agent, which is told so.

    The key is free again: no answer of a person stands under it.
    """
    answer = Answer(verdict="")
    record_decision(interrupt, answer, by=None, status=DecisionStatus.ACCEPTED, cause=Cause.WITHDRAWN, now=now)
    _close(run, interrupt, "withdraw", now=now)
    return _go_on(run, interrupt, cause=Cause.WITHDRAWN, now=now)


def amend_interrupt(interrupt: Interrupt, **changed: Any) -> None:
    """Change what is shown: a new version and a new content digest, so that answers to the old one are stale."""
    move_decisions(interrupt, "overtake")
    allowed, status = INTERRUPT_MOVES["amend"]
    _compare_and_set(interrupt, allowed, status=status, **changed)
    fresh = {"content_digest": digest_of(interrupt), "state_version": interrupt.state_version + 1}
    _compare_and_set(interrupt, allowed, **fresh)


def cancel_waits(run: Run, *, now: datetime) -> list[Interrupt]:
    """Close every open wait of a run that is being ended."""
    if not run.open_waits:
        return []
    waiting = list(
        Interrupt.objects.select_for_update(of=("self",), no_key=True)
        .filter(run=run, status=InterruptStatus.WAITING)
        .order_by("id")
    )
    for interrupt in waiting:
        _close(run, interrupt, "cancel", now=now)
    return waiting


def extend_interrupt(interrupt: Interrupt, *, deadline: datetime) -> None:
    """Give the wait more time; nothing shown changed, so its version stays."""
    allowed, status = INTERRUPT_MOVES["extend"]
    _compare_and_set(interrupt, allowed, status=status, deadline=deadline, sweep_after=None)


def escalate_interrupt(interrupt: Interrupt, *, to: Queue, wait: timedelta, now: datetime) -> None:
    """Hand the wait to the next queue with a deadline of its own. Nothing shown changed, so its version stays."""
    allowed, status = INTERRUPT_MOVES["escalate"]
    _compare_and_set(
        interrupt,
        allowed,
        status=status,
        queue=to,
        deadline=now + wait,
        level=interrupt.level + 1,
        claimed_by=None,
        claimed_until=None,
    )


def reopen_interrupt(
    run: Run, interrupt: Interrupt, *, verb: str, reason: str, now: datetime, deadline: datetime | None = None
) -> None:
    """Ask the same question again: the answer is overtaken or revoked (``verb``), its permit and continuation are void.

    The new round has the policy's time, or keeps ``deadline``.

    Only before the continuation is leased, or while its lessee has begun no effect yet; the caller has checked that.
    """
    move_decisions(interrupt, verb)
    void_permits(run, reason=reason, now=now, interrupt=interrupt)
    void_continuation(run, reason=reason)
    allowed, status = INTERRUPT_MOVES["reopen"]
    _compare_and_set(
        interrupt,
        allowed,
        status=status,
        round=interrupt.round + 1,
        state_version=interrupt.state_version + 1,
        deadline=deadline or now + interrupt.policy.deadline_default,
        claimed_by=None,
        claimed_until=None,
        closed_at=None,
    )
    run.open_waits += 1
    for sibling in siblings_of(interrupt, InterruptStatus.SUPERSEDED):
        _bring_back(run, sibling, now=now)


def _bring_back(run: Run, interrupt: Interrupt, *, now: datetime) -> None:
    """An answer that made this wait needless is gone. It keeps its deadline, unless that has passed meanwhile."""
    allowed, status = INTERRUPT_MOVES["bring back"]
    deadline = interrupt.deadline if interrupt.deadline > now else now + interrupt.policy.deadline_default
    _compare_and_set(interrupt, allowed, status=status, deadline=deadline, closed_at=None)
    run.open_waits += 1


def free_keys(interrupts: list[Interrupt]) -> None:
    """A changed fact overtook these answers: the agent may ask again under the same keys, next round."""
    for interrupt in interrupts:
        move_decisions(interrupt, "overtake")
    Interrupt.objects.filter(pk__in=[interrupt.pk for interrupt in interrupts]).update(renewed=True)


def siblings_of(interrupt: Interrupt, status: InterruptStatus) -> list[Interrupt]:
    """Return the other waits of the same boundary that stand so, locked by ascending id."""
    group = Interrupt.objects.select_for_update(of=("self",), no_key=True).filter(
        checkpoint=interrupt.checkpoint_id, status=status
    )
    return list(group.exclude(pk=interrupt.pk).select_related("policy").order_by("id"))


def _close(run: Run, interrupt: Interrupt, verb: str, *, now: datetime) -> None:
    allowed, status = INTERRUPT_MOVES[verb]
    _compare_and_set(interrupt, allowed, status=status, closed_at=now, claimed_by=None, claimed_until=None)
    run.open_waits -= 1


def _compare_and_set(interrupt: Interrupt, allowed: frozenset[InterruptStatus], **fields: Any) -> None:
    """Write under the locks of run and interrupt, and still compare with what was read."""
    assert_open()
    write = _guarded_write(allowed, tuple(fields))
    plain = {name: getattr(value, "pk", value) for name, value in fields.items()}
    before = {"pk": interrupt.pk, "version": interrupt.state_version, "at_level": interrupt.level}
    if write.write(**before, **plain) != 1:
        raise RuntimeError(f"the interrupt {interrupt.public_id} moved under its lock")
    for name, value in fields.items():
        setattr(interrupt, name, value)


@functools.cache
def _guarded_write(allowed: frozenset[InterruptStatus], columns: tuple[str, ...]) -> CompiledUpdate:
    still = {"state_version": compiled.number("version"), "level": compiled.number("at_level")}
    rows = lambda: Interrupt.objects.filter(pk=compiled.number("pk"), status__in=sorted(allowed), **still)  # noqa: E731
    return CompiledUpdate(rows, columns)


def _go_on(
    run: Run, interrupt: Interrupt, *, cause: str, now: datetime, not_before: datetime | None = None
) -> Continuation | None:
    if run.open_waits and interrupt.checkpoint.resume_when == ResumeWhen.ANY and cause != Cause.WITHDRAWN:
        for sibling in siblings_of(interrupt, InterruptStatus.WAITING):
            _close(run, sibling, "supersede", now=now)
    if run.open_waits:
        return None
    return make_continuation(
        run,
        interrupt.checkpoint_id,
        cause=cause,
        now=now,
        to_check=has_something_to_check(run, interrupt.checkpoint_id),
        priority=interrupt.priority,
        not_before=not_before,
    )
