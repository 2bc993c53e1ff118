"""Facts: the assumptions that the rest of a run depends on, and how a checked value is judged.

Facts are recorded with a checkpoint or an interrupt, and checked again before the run continues
(``use_cases/reconcile_facts.py``). A fact of kind ``value`` holds if its value is equal, by digest; one of kind
``credential`` if it is valid (``runs/credentials.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import DateTimeField, Exists, ExpressionWrapper, F, Q, QuerySet, Value

from ledger import effect_queries
from ledger.digests import digest
from ledger.errors import PayloadInvalid
from ledger.prepared_queries import prepared
from ledger.transactions import assert_in_transaction
from runs import credentials
from runs.models import Agent, Checkpoint, Connection, Decision, Fact, FactCheck, FactKind, FactStatus, Interrupt, Run
from runs.states import DecisionStatus, InterruptStatus, OnChange

MAX_FACT_CHECKS = 8


@dataclass(frozen=True, kw_only=True)
class RequestedFact:
    """One fact as the agent states it. ``path`` is needed for a check by connection."""

    name: str
    value: Any
    on_change: str = OnChange.REPLAN
    kind: str = FactKind.VALUE
    check_by: str = FactCheck.NONE
    connection: str = ""
    path: str = ""
    pointer: str = ""


def record_facts(
    asked: list[RequestedFact], *, agent: Agent, checkpoint: Checkpoint, interrupt: Interrupt | None = None, at: str
) -> list[Fact]:
    """Record the facts of a checkpoint or of one of its interrupts; ``at`` is their JSON Pointer in the request."""
    assert_in_transaction()
    if not asked:
        return []
    if sum(fact.check_by != FactCheck.NONE for fact in asked) > MAX_FACT_CHECKS:
        raise PayloadInvalid.at(at, f"must have at most {MAX_FACT_CHECKS} checks")
    names = [fact.name for fact in asked]
    for place, name in enumerate(names):
        if name in names[:place]:
            raise PayloadInvalid.at(f"{at}/{place}/name", "is used twice")
    connections = {connection.name: connection for connection in Connection.objects.filter(agent=agent)}
    rows = []
    for place, fact in enumerate(asked):
        if fact.connection and fact.connection not in connections:
            raise PayloadInvalid.at(f"{at}/{place}/check/connection", "must be a connection of this agent")
        if fact.kind == FactKind.CREDENTIAL:
            credentials.find_end_of_validity(fact.value, at=f"{at}/{place}/value")
        rows.append(
            Fact(
                checkpoint=checkpoint,
                interrupt=interrupt,
                name=fact.name,
                value=fact.value,
                on_change=fact.on_change,
                kind=fact.kind,
                check_by=fact.check_by,
                connection=connections.get(fact.connection),
                path=fact.path,
                pointer=fact.pointer,
            )
        )
    return Fact.objects.bulk_create(rows)


def needs_check(run: Run, checkpoint_id: int) -> bool:
    """Tell whether the locked run needs a check before it continues from the checkpoint.

    It does with a fact that this server checks, an effect in flight or with an unknown outcome, or an open hold.
    """
    return find_checks_and_undo_end(run, checkpoint_id)[0]


def find_checks_and_undo_end(run: Run, checkpoint_id: int) -> tuple[bool, datetime | None]:
    """Return whether a check is needed, and until when an answer at the checkpoint can be undone."""
    found = _delays.all(checkpoint=checkpoint_id, scope=run.public_id)
    undo_ends = [until for until, pk in found if until is not None]
    to_check = run.open_holds > 0 or len(found) > len(undo_ends)
    return to_check, max(undo_ends, default=None)


def delays_continuation(checkpoint: Any, scope: Any) -> Q:
    """Return the condition that ``find_checks_and_undo_end`` finds more than open holds, for a prepared query."""
    answers, facts, effects = _obstacles(checkpoint, scope)
    return Q(Exists(answers)) | Q(Exists(facts)) | Q(Exists(effects))


@prepared
def _delays(checkpoint: int, scope: str) -> QuerySet[Any, tuple[Any, ...]]:
    """Return a row for each answer that can be undone, with the end of that time, and one with NULL for each check."""
    answers, facts, effects = _obstacles(checkpoint, scope)
    undo_end = ExpressionWrapper(F("created_at") + F("interrupt__policy__undo"), output_field=DateTimeField())
    never = Value(None, output_field=DateTimeField())
    return answers.values_list(undo_end, "pk").union(
        facts.values_list(never, "pk"), effects.values_list(never, "pk"), all=True
    )


def _obstacles(checkpoint: Any, scope: Any) -> tuple[QuerySet[Any], QuerySet[Any], QuerySet[Any]]:
    """Return the answers that can be undone, the facts that this server checks, and the effects without an outcome."""
    answers = Decision.objects.filter(
        interrupt__checkpoint=checkpoint,
        interrupt__status=InterruptStatus.ANSWERED,
        status=DecisionStatus.ACCEPTED,
        closes=True,
        door="page",
        delivered_at=None,
    )
    facts = Fact.objects.filter(checkpoint=checkpoint, check_by=FactCheck.CONNECTION)
    return answers, facts, effect_queries.query_unresolved_effects(scope)


def can_rely_on(fact: Fact, value: Any, *, now: datetime) -> bool:
    """Tell whether the run can rely on the fact with this value: an equal one, or for a credential a valid one.

    A value that a renewed review was shown is relied on, even an invalid credential, because the reviewer accepted it.
    """
    is_same = digest(value) == digest(fact.relied_on)
    if fact.kind != FactKind.CREDENTIAL:
        return is_same
    return credentials.is_valid(value, now=now) or (fact.was_reviewed and is_same)


def must_be_refreshed(fact: Fact) -> bool:
    """Tell whether the fact is an invalid credential that the worker must renew before the run continues.

    The answer is kept meanwhile. With ``on_change: renew`` the review is renewed instead; with ``note`` the change is
    only shown.
    """
    is_awaited = fact.kind == FactKind.CREDENTIAL and fact.on_change == OnChange.REPLAN
    return is_awaited and fact.last_status == FactStatus.CHANGED and fact.waived_by_id is None


def guards_effects(fact: Fact) -> bool:
    """Tell whether the fact is a credential that must be valid while the run acts; with ``note`` it need not be."""
    return fact.kind == FactKind.CREDENTIAL and fact.on_change != OnChange.NOTE


def is_known(fact: Fact) -> bool:
    """Tell whether a check found a value; it is then ``last_value``."""
    return fact.last_status in {FactStatus.SAME, FactStatus.CHANGED}


def is_valid_credential(fact: Fact, *, now: datetime) -> bool | None:
    """Tell whether the newest value known of a credential is valid; ``None`` for any other fact."""
    if fact.kind != FactKind.CREDENTIAL:
        return None
    return credentials.is_valid(fact.last_value if is_known(fact) else fact.value, now=now)


def has_changed(fact: Fact) -> bool:
    """Tell whether the last value differs from what the agent relied on, or a credential was found invalid.

    It does also after a renewed review, because the agent has not seen the new value.
    """
    if fact.kind == FactKind.CREDENTIAL:
        reviewed = fact.was_reviewed and digest(fact.last_value) == digest(fact.reviewed_value)
        return fact.last_status == FactStatus.CHANGED or (is_known(fact) and reviewed)
    return is_known(fact) and digest(fact.last_value) != digest(fact.value)
