"""Facts: the assumptions that the rest of a run depends on, and what is done when one changed.

Recorded with a checkpoint or with an interrupt; checked again before the run goes on (``checking.check_continuation``)
and by the worker after its claim (``checking.report_facts``). A fact of kind ``value`` holds while its value is equal,
by digest; one of kind ``credential`` while it is valid (``credentials``). No call goes out from here: the check gets
its ``fetch`` from above.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import DateTimeField, ExpressionWrapper, F, QuerySet, Value

from ledger import effect_queries
from ledger.digests import digest
from ledger.errors import PayloadInvalid
from ledger.prepared_queries import prepared
from ledger.transactions import assert_open
from runs import credentials
from runs.models import Agent, Checkpoint, Connection, Decision, Fact, FactCheck, FactKind, FactStatus, Interrupt, Run
from runs.states import DecisionStatus, InterruptStatus, OnChange

MOST_CHECKS = 8


@dataclass(frozen=True, kw_only=True)
class AskedFact:
    """One fact as the agent states it. ``check_by`` says who checks it again; a connection needs ``path``."""

    name: str
    value: Any
    on_change: str = OnChange.REPLAN
    kind: str = FactKind.VALUE
    check_by: str = FactCheck.NONE
    connection: str = ""
    path: str = ""
    pointer: str = ""


def record_facts(
    asked: list[AskedFact], *, agent: Agent, checkpoint: Checkpoint, interrupt: Interrupt | None = None, at: str
) -> list[Fact]:
    """Record the facts of a checkpoint, or of one interrupt asked there; ``at`` is their JSON Pointer in the request."""
    assert_open()
    if not asked:
        return []
    if sum(fact.check_by != FactCheck.NONE for fact in asked) > MOST_CHECKS:
        raise PayloadInvalid.at(at, f"have more than {MOST_CHECKS} checks")
    names = [fact.name for fact in asked]
    for place, name in enumerate(names):
        if name in names[:place]:
            raise PayloadInvalid.at(f"{at}/{place}/name", "is named twice")
    connections = {connection.name: connection for connection in Connection.objects.filter(agent=agent)}
    rows = []
    for place, fact in enumerate(asked):
        if fact.connection and fact.connection not in connections:
            raise PayloadInvalid.at(f"{at}/{place}/check/connection", "is not a connection of this agent")
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


def has_something_to_check(run: Run, checkpoint_id: int) -> bool:
    """Tell whether anything stands between the locked run and going on from the checkpoint.

    A fact that this server checks, an effect under way or in question, or a hold that is open already.
    """
    return find_obstacles(run, checkpoint_id)[0]


def find_obstacles(run: Run, checkpoint_id: int) -> tuple[bool, datetime | None]:
    """Return whether there is something to check, and until when an answer at the checkpoint can be undone."""
    found = _obstacles.all(checkpoint=checkpoint_id, scope=run.public_id)
    undo_ends = [until for until, pk in found if until is not None]
    to_check = run.open_holds > 0 or len(found) > len(undo_ends)
    return to_check, max(undo_ends, default=None)


@prepared
def _obstacles(checkpoint: int, scope: str) -> QuerySet[Any, tuple[Any, ...]]:
    """Return a row for each answer that can be undone, with the end of that time, and one with NULL for each check."""
    answers = Decision.objects.filter(
        interrupt__checkpoint=checkpoint,
        interrupt__status=InterruptStatus.ANSWERED,
        status=DecisionStatus.ACCEPTED,
        closes=True,
        door="page",
        delivered_at=None,
    )
    undo_end = ExpressionWrapper(F("created_at") + F("interrupt__policy__undo"), output_field=DateTimeField())
    facts = Fact.objects.filter(checkpoint=checkpoint, check_by=FactCheck.CONNECTION)
    effects = effect_queries.query_in_question(scope)
    never = Value(None, output_field=DateTimeField())
    return answers.values_list(undo_end, "pk").union(
        facts.values_list(never, "pk"), effects.values_list(never, "pk"), all=True
    )


def holds(fact: Fact, value: Any, *, now: datetime) -> bool:
    """Tell whether the value found now lets the run rely on the fact: an equal one, or for a credential a valid one.

    What a renewed review has seen since is relied on, also a credential that is not valid: its reviewer knew.
    """
    is_same = digest(value) == digest(fact.relied_on)
    if fact.kind != FactKind.CREDENTIAL:
        return is_same
    return credentials.is_valid(value, now=now) or (fact.was_reviewed and is_same)


def must_be_refreshed(fact: Fact) -> bool:
    """Tell whether the fact is a credential that is not valid and must be renewed before the run continues.

    The person's answer is kept meanwhile. With ``on_change`` ``renew`` the review is renewed instead; with ``note`` the
    change is only shown.
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


def differs(fact: Fact) -> bool:
    """Tell whether the value found last differs from what the agent relied on, or a credential was found not valid.

    Also where a renewed review has seen it since: the agent has not, and the reviewer of the next round wants to.
    """
    if fact.kind == FactKind.CREDENTIAL:
        reviewed = fact.was_reviewed and digest(fact.last_value) == digest(fact.reviewed_value)
        return fact.last_status == FactStatus.CHANGED or (is_known(fact) and reviewed)
    return is_known(fact) and digest(fact.last_value) != digest(fact.value)
