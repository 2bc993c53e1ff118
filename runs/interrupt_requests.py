"""What an agent asks: the question, checked before anybody sees it, and the digest of what is shown.

Called by ``opening`` for a new wait and by ``amending`` for a changed one. Only schemas are stored here; who may answer and
under which terms is judged elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractBaseUser

from ledger.digests import digest
from ledger.errors import PayloadInvalid, Problem
from ledger.exact_json import dumps
from runs import schemas
from runs.decisions import schema_of
from runs.errors import SchemaUnsupported
from runs.facts import AskedFact
from runs.models import Interrupt, Schema
from runs.policies import Wish
from runs.states import VERDICTS_OF, Kind


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
    correlation: str = ""
    wish: Wish = field(default_factory=Wish)


#: Asks the layer that knows people: refuses assignees who could not decide, by their JSON Pointer.
CheckAssignees = Callable[..., None]


def content_digest(
    *, title: str, message: str, proposal: Any, evidence: Any, input_schema: Any, facts: dict[str, Any]
) -> str:
    """Return the digest of what a reviewer is shown; an answer to anything else is stale."""
    shown = {"title": title, "message": message, "proposal": proposal, "evidence": evidence}
    return digest(shown | {"input_schema": input_schema, "facts": facts})


def call_digest(proposal: Any) -> str:
    """Return the digest of the proposed call alone, by which the same call asked twice is known; empty without one."""
    return "" if proposal is None else digest({"name": proposal["name"], "arguments": proposal["arguments"]})


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


def fitting_verdicts(wait: AskedWait, at: str) -> list[str]:
    """Return what may be answered, without doubles; refuse verdicts that do not fit the kind."""
    possible = VERDICTS_OF[wait.kind]
    if wait.kind in BY_ITSELF:
        return _verdicts_beside(wait, at)
    if wait.correlation:
        raise PayloadInvalid.at(f"{at}/correlation", "goes with kind event: no signal answers what people are asked")
    if wait.kind == Kind.APPROVAL and wait.proposal is None:
        raise PayloadInvalid.at(f"{at}/proposal", "is missing: an approval is of one exact call")
    for place, verdict in enumerate(wait.verdicts or []):
        if verdict not in possible:
            raise PayloadInvalid.at(f"{at}/verdicts/{place}", f"does not fit {wait.kind}: {', '.join(possible)}")
    if wait.verdicts == []:
        raise PayloadInvalid.at(f"{at}/verdicts", "leaves nothing to say")
    return list(dict.fromkeys(wait.verdicts or possible))


#: Kinds that are answered without a person: by a signal, by the time.
BY_ITSELF = frozenset({Kind.EVENT, Kind.TIMER})


def _verdicts_beside(wait: AskedWait, at: str) -> list[str]:
    """Return what people may answer beside a signal: something where a queue is named, nothing otherwise.

    An agent's own keys may send signals, so a signal never approves: what needs a person's right is asked as an approval.
    """
    is_timer = wait.kind == Kind.TIMER
    if not is_timer and not wait.correlation:
        raise PayloadInvalid.at(f"{at}/correlation", "is missing: the signal is known by it")
    asks_people = {"verdicts": wait.verdicts, "assignees": wait.assignees or None}
    senseless: dict[str, Any] = {"proposal": wait.proposal, "quorum": wait.wish.quorum}
    if is_timer:
        has_deadline = wait.wish.deadline is not None or wait.wish.deadline_in is not None
        if not has_deadline:
            raise PayloadInvalid.at(f"{at}/deadline", "is missing: when a timer fires")
        senseless |= {
            "correlation": wait.correlation or None,
            "queue": wait.wish.queue,
            "on_expiry": wait.wish.on_expiry,
        }
        senseless |= {"input_schema": wait.input_schema} | asks_people
    elif wait.wish.queue is None:
        senseless |= asks_people
    for member, sent in senseless.items():
        if sent is not None:
            raise PayloadInvalid.at(
                f"{at}/{member}", f"does not go with kind {wait.kind}{'' if is_timer else _NO_QUEUE}"
            )
    if is_timer or wait.wish.queue is None:
        return []
    for place, verdict in enumerate(wait.verdicts or []):
        if verdict not in VERDICTS_OF[wait.kind]:
            raise PayloadInvalid.at(f"{at}/verdicts/{place}", "does not fit event: answer, decline")
    return list(dict.fromkeys(wait.verdicts or VERDICTS_OF[wait.kind]))


_NO_QUEUE = " where no queue is named"


def check_schemas(wait: AskedWait, at: str) -> None:
    """Refuse a schema that cannot be used, and a proposed call that does not fit its own."""
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


def people_named(addresses: list[str]) -> list[AbstractBaseUser | None]:
    """Return the person of each address, once, in the order of the addresses; ``None`` for an address that is not known."""
    if not addresses:
        return []
    people = {person.get_username(): person for person in get_user_model().objects.filter(username__in=addresses)}
    return [people.get(address) for address in dict.fromkeys(addresses)]


def stored_schema(body: Any) -> Schema:
    """Return the row of a schema; kept by the digest of its exact text, so that two spellings stay two."""
    stored, _ = Schema.objects.get_or_create(digest=digest(dumps(body)), defaults={"body": body})
    return stored
