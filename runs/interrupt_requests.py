"""Interrupts as an agent requests them: validation of the request, and the digest of what a reviewer is shown.

Used for a new interrupt and for an amended one. Permissions and policy terms are checked elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from django.contrib.auth.models import AbstractUser, User
from django.db.models import QuerySet

from ledger.digests import digest
from ledger.errors import PayloadInvalid, Problem
from ledger.exact_json import dumps
from ledger.prepared_queries import prepared
from runs import schemas
from runs.decisions import answer_schema
from runs.errors import SchemaUnsupported
from runs.facts import RequestedFact
from runs.models import Fact, Interrupt, Policy, Queue, Schema
from runs.policies import RequestedTerms
from runs.schemas import attachments
from runs.states import VERDICTS_OF, Kind


@dataclass(frozen=True, kw_only=True)
class RequestedInterrupt:
    """One interrupt as the agent requests it.

    ``request_digest`` covers the request without its deadline, because a replaying worker computes the deadline again.
    """

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
    facts: list[RequestedFact] = field(default_factory=list)
    external_id: str = ""
    priority: int = 50
    metadata: dict[str, Any] = field(default_factory=dict)
    correlation: str = ""
    wish: RequestedTerms = field(default_factory=RequestedTerms)


class CheckAssignees(Protocol):
    """Refuses assignees who could not decide. Passed in by the layer that knows people."""

    def __call__(
        self,
        people: Sequence[AbstractUser | None],
        *,
        queue: Queue | None,
        policy: Policy,
        initiator_id: int | None,
        quorum: int,
        at: str,
    ) -> None: ...


def content_digest(
    *, title: str, message: str, proposal: Any, evidence: Any, input_schema: Any, facts: dict[str, Any]
) -> str:
    """Return the digest of what a reviewer is shown. An answer to another digest is stale."""
    shown = {"title": title, "message": message, "proposal": proposal, "evidence": evidence}
    return digest(shown | {"input_schema": input_schema, "facts": facts})


def call_digest(proposal: Any) -> str:
    """Return the digest of the proposed call, which finds the same call in other interrupts; empty without a proposal."""
    return "" if proposal is None else digest({"name": proposal["name"], "arguments": proposal["arguments"]})


def stored_content_digest(interrupt: Interrupt, facts: Sequence[Fact] | None = None) -> str:
    """Return the content digest of a stored interrupt. ``facts``: its facts, if they were read."""
    found = _facts_of_interrupt.all(interrupt=interrupt.pk) if facts is None else [(it.name, it.value) for it in facts]
    return content_digest(
        title=interrupt.title,
        message=interrupt.message,
        proposal=interrupt.proposal,
        evidence=interrupt.evidence,
        input_schema=answer_schema(interrupt),
        facts=dict(found),
    )


@prepared
def _facts_of_interrupt(interrupt: int) -> QuerySet[Fact, tuple[str, Any]]:
    return Fact.objects.filter(interrupt=interrupt).values_list("name", "value")


def check_verdicts(wait: RequestedInterrupt, at: str) -> list[str]:
    """Return the verdicts of an interrupt, by default all of its kind. Refuse members that do not belong to the kind."""
    possible = VERDICTS_OF[wait.kind]
    if wait.kind in WITHOUT_PEOPLE:
        return _verdicts_beside(wait, at)
    if wait.correlation:
        raise PayloadInvalid.at(
            f"{at}/correlation", "is only for kind event: a signal cannot answer a request to people"
        )
    if wait.kind == Kind.APPROVAL and wait.proposal is None:
        raise PayloadInvalid.at(f"{at}/proposal", "is missing: an approval needs the exact call")
    for place, verdict in enumerate(wait.verdicts or []):
        if verdict not in possible:
            raise PayloadInvalid.at(
                f"{at}/verdicts/{place}", f"must be one of {', '.join(possible)} for kind {wait.kind}"
            )
    if wait.verdicts == []:
        raise PayloadInvalid.at(f"{at}/verdicts", "must not be empty")
    return list(dict.fromkeys(wait.verdicts or possible))


#: Kinds that are answered without a person, by a signal or by a timer.
WITHOUT_PEOPLE = frozenset({Kind.EVENT, Kind.TIMER})


def _verdicts_beside(wait: RequestedInterrupt, at: str) -> list[str]:
    """Return the verdicts of an event, which people can answer only if a queue is named; none for a timer.

    An event has no approving verdict, because the agent's own keys can send signals.
    """
    is_timer = wait.kind == Kind.TIMER
    if not is_timer and not wait.correlation:
        raise PayloadInvalid.at(f"{at}/correlation", "is missing: it identifies the signal")
    people_members = {"verdicts": wait.verdicts, "assignees": wait.assignees or None}
    misplaced: dict[str, Any] = {"proposal": wait.proposal, "quorum": wait.wish.quorum}
    if is_timer:
        has_deadline = wait.wish.deadline is not None or wait.wish.deadline_in is not None
        if not has_deadline:
            raise PayloadInvalid.at(f"{at}/deadline", "is missing: it is the time at which the timer fires")
        misplaced |= {
            "correlation": wait.correlation or None,
            "queue": wait.wish.queue,
            "on_expiry": wait.wish.on_expiry,
        }
        misplaced |= {"input_schema": wait.input_schema} | people_members
    elif wait.wish.queue is None:
        misplaced |= people_members
    for member, sent in misplaced.items():
        if sent is not None:
            raise PayloadInvalid.at(
                f"{at}/{member}", f"is not allowed for kind {wait.kind}{'' if is_timer else _NO_QUEUE}"
            )
    if is_timer or wait.wish.queue is None:
        return []
    for place, verdict in enumerate(wait.verdicts or []):
        if verdict not in VERDICTS_OF[wait.kind]:
            raise PayloadInvalid.at(f"{at}/verdicts/{place}", "must be answer or decline for kind event")
    return list(dict.fromkeys(wait.verdicts or VERDICTS_OF[wait.kind]))


_NO_QUEUE = " without a queue"


def check_schemas(wait: RequestedInterrupt, at: str) -> None:
    """Refuse an unusable schema, and a proposal that does not match its own schema."""
    if wait.input_schema is not None:
        _check_schema(wait.input_schema, f"{at}/input_schema")
        if wait.kind in WITHOUT_PEOPLE:
            _refuse_attachments(wait.input_schema, f"{at}/input_schema", "signal")
    check_proposal(wait.proposal, at)


def check_proposal(proposal: Any, at: str) -> None:
    """Refuse a proposal whose arguments do not match its own schema."""
    if proposal is not None and "schema" in proposal:
        _check_schema(proposal["schema"], f"{at}/proposal/schema")
        _refuse_attachments(proposal["schema"], f"{at}/proposal/schema", "call")
        problems = schemas.validate(proposal["schema"], proposal["arguments"])
        if problems:
            raise PayloadInvalid(
                "The arguments of the proposal do not match its schema.",
                errors=[Problem(f"{at}/proposal/arguments{it.pointer}", it.message) for it in problems],
            )


def _check_schema(body: Any, at: str) -> None:
    try:
        schemas.check_schema(body)
    except SchemaUnsupported as refused:
        errors = [Problem(at + problem.pointer, problem.message) for problem in refused.errors]
        raise SchemaUnsupported(refused.detail, errors=errors) from None


def _refuse_attachments(body: Any, at: str, what: str) -> None:
    """Refuse a schema that asks for a file where no reviewer can attach one."""
    message = f"must not be attachment: a file is attached to an answer, not to a {what}"
    if errors := [Problem(at + place, message) for place in attachments.list_places(body)]:
        raise SchemaUnsupported(f"This schema cannot be used. At {errors[0].pointer}: it {message}.", errors=errors)


def find_people(addresses: list[str]) -> list[User | None]:
    """Return the user of each distinct address, in order; ``None`` for an unknown address."""
    if not addresses:
        return []
    people = {person.get_username(): person for person in User.objects.filter(username__in=addresses)}
    return [people.get(address) for address in dict.fromkeys(addresses)]


def get_or_create_schema(body: Any) -> Schema:
    """Return the stored row of a schema, by the digest of its exact text."""
    stored, _ = Schema.objects.get_or_create(digest=digest(dumps(body)), defaults={"body": body})
    return stored
