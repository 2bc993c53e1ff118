"""What a wait looks like in a request, with its facts, and how it reads as what the verbs take.

Called by the views that ask: `POST asks`, `POST runs/{id}/interrupts`, `PATCH interrupts/{id}`.
"""

from __future__ import annotations

from typing import Any

from ledger.digests import digest
from ledger.exact_json import ABSENT
from reviewqueue.api.serializers.fields import (
    Address,
    Exact,
    ExactObject,
    Field,
    Key,
    Many,
    Metadata,
    Moment,
    OneOf,
    Shape,
    Span,
    Text,
    Whole,
    wrong,
    wrong_in,
)
from reviewqueue.outbound.address_policy import AddressRefused, check_fact_path
from reviewqueue.outbound.json_pointer import is_pointer
from runs.facts import AskedFact
from runs.interrupt_requests import AskedWait
from runs.models import FactCheck, FactKind
from runs.policies import Wish
from runs.states import Kind, OnChange, OnExpiry, Risk

#: Members that a replaying worker computes anew while it still asks the same thing.
NOT_THE_QUESTION = {"deadline", "deadline_in"}


class SignalShape(Shape):
    """`POST signals`: an outside event."""

    id = Key()
    correlation = Key()
    type = Text(most=200, least=1)
    body = Exact()


class CheckedThere(Shape):
    """Where this server looks a fact up again: below a connection's address, by JSON Pointer into the reply."""

    connection = Text(most=60, least=1)
    path = Text(most=500, least=1)
    pointer = Text(most=500, default="")

    def validate_path(self, path: str) -> str:
        """Refuse what would lead elsewhere than below the connection's address."""
        try:
            check_fact_path(path)
        except AddressRefused as refused:
            raise wrong(str(refused)) from None
        return path

    def validate_pointer(self, pointer: str) -> str:
        """Refuse what is no JSON Pointer."""
        if not is_pointer(pointer):
            raise wrong("is not a JSON Pointer (RFC 6901)")
        return pointer


class Check(Field):
    """`"worker"`, or where this server looks."""

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        """Return the members of an ``AskedFact`` that say who checks it."""
        if data == "worker":
            return {"check_by": FactCheck.WORKER}
        if not isinstance(data, dict):
            raise wrong('has to be "worker", or an object with connection, path and pointer')
        return {"check_by": FactCheck.CONNECTION, **_THERE.run_validation(data)}


_THERE = CheckedThere()


class FactShape(Shape):
    """One fact as the agent states it."""

    name = Text(most=200, least=1)
    value = Exact(required=True)
    on_change = OneOf(*OnChange.values, default=OnChange.REPLAN.value)
    kind = OneOf(*FactKind.values, default=FactKind.VALUE.value)
    check = Check(required=False, allow_null=True, default=None)


class Proposal(Shape):
    """The exact call that an approval is of; ``schema`` bounds what an edit may make of its arguments."""

    name = Text(most=200, least=1)
    arguments = ExactObject()
    schema = Exact()


class Evidence(Shape):
    """One thing that the agent found and shows."""

    label = Text(most=200, least=1)  # type: ignore[assignment]  # a declared field, taken out of the class by DRF
    value = Exact(required=True)
    source = Text(most=300, default="")  # type: ignore[assignment]


class AtExpiry(Shape):
    """What happens at the deadline; a verdict, with what belongs to it, goes with ``default`` only."""

    do = OneOf(*OnExpiry.values)
    verdict = Text(most=20, required=False)
    input = Exact()
    arguments = Exact()


class WaitShape(Shape):
    """One wait, as `POST runs/{id}/interrupts` lists it and `POST asks` is one."""

    key = Key()
    kind = OneOf(*Kind.values, allow_null=True, default=None)
    reason = Text(most=60, least=1)
    queue = Text(most=60, least=1, allow_null=True, default=None)
    external_id = Text(most=300, allow_null=True, default=None)
    title = Text(most=300, least=1)
    message = Text(most=100_000, allow_null=True, default=None)
    proposal = Proposal(allow_null=True, default=None)
    input_schema = Exact()
    verdicts = Many(Text(most=20), most=6, allow_null=True, default=None)
    assignees = Many(Address(), most=20, allow_null=True, default=None)
    deadline = Moment(allow_null=True, default=None)
    deadline_in = Span(allow_null=True, default=None)
    evidence = Many(Evidence(), most=50, allow_null=True, default=None)
    on_expiry = AtExpiry(allow_null=True, default=None)
    risk = OneOf(*Risk.values, allow_null=True, default=None)
    priority = Whole(least=0, most=100, default=50)
    quorum = Whole(least=1, most=20, allow_null=True, default=None)
    metadata = Metadata(allow_null=True, default=None)
    facts = Many(FactShape(), most=50, allow_null=True, default=None)
    correlation = Key(required=False, allow_null=True, default=None)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Refuse two deadlines."""
        if attrs["deadline"] is not None and attrs["deadline_in"] is not None:
            raise wrong_in("goes without deadline: one of the two", "deadline_in")
        return attrs


def asked_wait(sent: dict[str, Any], wait: dict[str, Any]) -> AskedWait:
    """Return the wait that was asked for; ``sent`` is the body as it came, which its digest covers."""
    kind = wait["kind"] or (Kind.INPUT if wait["proposal"] is None else Kind.APPROVAL)
    schema = wait["input_schema"]
    return AskedWait(
        key=wait["key"],
        kind=kind,
        reason=wait["reason"],
        title=wait["title"],
        request_digest=digest({name: value for name, value in sent.items() if name not in NOT_THE_QUESTION}),
        message=wait["message"] or "",
        proposal=as_sent(wait["proposal"]),
        input_schema=None if schema is ABSENT else schema,
        verdicts=wait["verdicts"],
        assignees=wait["assignees"] or [],
        evidence=[as_sent(shown) for shown in wait["evidence"] or []],
        facts=asked_facts(wait["facts"]),
        external_id=wait["external_id"] or "",
        priority=wait["priority"],
        metadata=wait["metadata"] or {},
        correlation=wait["correlation"] or "",
        wish=Wish(
            queue=wait["queue"],
            deadline=wait["deadline"],
            deadline_in=wait["deadline_in"],
            on_expiry=as_sent(wait["on_expiry"]),
            risk=wait["risk"],
            quorum=wait["quorum"],
        ),
    )


def asked_facts(facts: list[dict[str, Any]] | None) -> list[AskedFact]:
    """Return the facts that were stated."""
    return [
        AskedFact(
            name=fact["name"],
            value=fact["value"],
            on_change=fact["on_change"],
            kind=fact["kind"],
            **(fact["check"] or {}),
        )
        for fact in facts or []
    ]


def as_sent(members: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the members that were there: one left out is not one that is null."""
    if members is None:
        return None
    return {name: value for name, value in members.items() if value is not ABSENT}
