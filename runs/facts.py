"""Facts: the assumptions that the rest of a run depends on, and what is done when one changed.

Recorded with a checkpoint or with an interrupt; checked again before the run goes on (``checking.check_continuation``)
and by the worker after its claim (``checking.report_facts``). Equality is digest equality. No call goes out from here:
the check gets its ``fetch`` from above.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from ledger import compiled, consulting
from ledger.canonical import digest
from ledger.compiled import Compiled
from ledger.errors import PayloadInvalid
from ledger.transactions import assert_open
from runs.models import Agent, Checkpoint, Connection, Fact, FactCheck, FactKind, FactStatus, Interrupt, Run
from runs.states import OnChange

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
    return run.open_holds > 0 or bool(_TO_CHECK.all(checkpoint=checkpoint_id, scope=run.public_id))


def _what_to_check() -> QuerySet[Fact, tuple[int]]:
    facts = Fact.objects.filter(checkpoint=compiled.number("checkpoint"), check_by=FactCheck.CONNECTION)
    return facts.values_list("pk").union(consulting.query_in_question(compiled.text("scope")), all=True)[:1]


_TO_CHECK = Compiled(_what_to_check)


def differs(fact: Fact) -> bool:
    """Tell whether the value that was told last differs from what the agent relied on.

    Also where a renewed review has seen it since: the agent has not, and the reviewer of the next round wants to.
    """
    told = fact.last_status in {FactStatus.SAME, FactStatus.CHANGED}
    return told and digest(fact.last_value) != digest(fact.value)
