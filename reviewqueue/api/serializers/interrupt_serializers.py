"""Request serializers of interrupts, facts and signals, and how their members become the arguments of use cases."""

from __future__ import annotations

from typing import Any

from ledger.digests import digest
from ledger.exact_json import ABSENT
from ledger.json_pointer import is_pointer
from reviewqueue.api.serializers.fields import (
    ChoiceField,
    DateTimeField,
    DurationField,
    EmailField,
    ExactField,
    Field,
    IntegerField,
    KeyField,
    ListField,
    MetadataField,
    ObjectField,
    RequestSerializer,
    Resolve,
    Schema,
    TextField,
    invalid,
    invalid_at,
)
from reviewqueue.outbound.address_policy import AddressRefused, check_fact_path
from runs.facts import RequestedFact
from runs.interrupt_requests import RequestedInterrupt
from runs.models import FactCheck, FactKind
from runs.policies import RequestedTerms
from runs.states import Kind, OnChange, OnExpiry, Risk

#: Members that differ when a worker that replays asks for the same interrupt again.
NOT_IN_DIGEST = {"deadline", "deadline_in"}


class SignalRequest(RequestSerializer):
    """An event in a business system."""

    id = KeyField("The sender's id of the event. A second request with the same id finds the first signal.")
    correlation = KeyField("Correlation id of the interrupt that this signal answers.")
    type = TextField("Type of the event, as the sender names it.", max_length=200, min_length=1)
    body = ExactField("What happened. The agent gets it as the answer's `input`.")


class FactSourceRequest(RequestSerializer):
    """Where this server looks up a fact: a path below a connection's address, and a JSON Pointer into the response."""

    connection = TextField("Name of a connection that the agent's owner registered.", max_length=60, min_length=1)
    path = TextField("Path below the connection's address.", max_length=500, min_length=1)
    pointer = TextField("JSON Pointer (RFC 6901) into the response.", max_length=500, default="")

    def validate_path(self, path: str) -> str:
        """Refuse a path that leads outside the connection's address."""
        try:
            check_fact_path(path)
        except AddressRefused as refused:
            raise invalid(str(refused)) from None
        return path

    def validate_pointer(self, pointer: str) -> str:
        """Refuse a text that is not a JSON Pointer."""
        if not is_pointer(pointer):
            raise invalid("must be a JSON Pointer (RFC 6901)")
        return pointer


class FactCheckField(Field):
    """`"worker"`, or where this server looks up the fact."""

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        """Return the arguments of ``RequestedFact`` that say who checks the fact."""
        if data == "worker":
            return {"check_by": FactCheck.WORKER}
        if not isinstance(data, dict):
            raise invalid('must be "worker", or an object with connection, path and pointer')
        return {"check_by": FactCheck.CONNECTION, **_FACT_SOURCE.run_validation(data)}

    def json_schema(self, resolve: Resolve) -> Schema:
        return {"anyOf": [{"type": "string", "const": "worker"}, resolve(FactSourceRequest)]}


_FACT_SOURCE = FactSourceRequest()


class FactRequest(RequestSerializer):
    """A fact that the rest of the run relies on."""

    name = TextField("Name of the fact.", max_length=200, min_length=1)
    value = ExactField("Value that the run relies on.", required=True)
    on_change = ChoiceField(
        "What happens when the fact has changed: `replan` (the agent plans again), `renew` (the interrupts are asked "
        "again), `note` (the change is only reported).",
        *OnChange.values,
        default=OnChange.REPLAN.value,
    )
    kind = ChoiceField(
        "`value`: must be equal when it is checked again. `credential`: must be valid then. Its value states the "
        "validity: an RFC 3339 date (valid until its end in UTC) or date-time; true, false or null; or an object with "
        "`valid_until`, `valid` or both.",
        *FactKind.values,
        default=FactKind.VALUE.value,
    )
    check = FactCheckField(
        "Who checks the fact before the run continues: `worker`, or this server through a connection. Left out, the "
        "fact is not checked.",
        required=False,
        allow_null=True,
        default=None,
    )


class ProposalRequest(RequestSerializer):
    """The exact call that the agent proposes."""

    name = TextField("Name of the call.", max_length=200, min_length=1)
    arguments = ObjectField("Arguments of the call, by name.")
    schema = ExactField("JSON Schema of the arguments. Edits must satisfy it (docs/schemas.md).")


class EvidenceRequest(RequestSerializer):
    """A finding of the agent that reviewers see."""

    label = TextField("Label of the finding.", max_length=200, min_length=1)  # type: ignore[assignment]  # a DRF attribute
    value = ExactField("The finding.", required=True)
    source = TextField("Where the agent found it.", max_length=300, default="")  # type: ignore[assignment]


class OnExpiryRequest(RequestSerializer):
    """What happens at the deadline. The verdict and its members belong to ``default`` only."""

    do = ChoiceField(
        "`cancel` (the run ends as expired), `fail`, `resume` (without an answer), `escalate`, or `default` (with the "
        "answer given here).",
        *OnExpiry.values,
    )
    verdict = TextField("With `default`: the verdict.", max_length=20, required=False)
    input = ExactField("With `default`: the answer. Null, false, 0, an empty text and an empty list are answers.")


class InterruptRequest(RequestSerializer):
    """A request to people, or for a signal or a time."""

    key = KeyField("Your key of the interrupt: a repeated request with it finds the same interrupt.")
    kind = ChoiceField(
        "What is asked for. Left out: `approval` with a proposal, `input` without one.",
        *Kind.values,
        allow_null=True,
        default=None,
    )
    reason = TextField("Reason code. It selects the policy.", max_length=60, min_length=1)
    queue = TextField(
        "Slug of the queue whose people decide; the policy's queue when left out.",
        max_length=60,
        min_length=1,
        allow_null=True,
        default=None,
    )
    external_id = TextField(
        "Your own id of the interrupt, such as a tool call's.", max_length=300, allow_null=True, default=None
    )
    title = TextField("One line that reviewers read.", max_length=300, min_length=1)
    message = TextField(
        "The agent's message to reviewers, in markdown.", max_length=100_000, allow_null=True, default=None
    )
    proposal = ProposalRequest("The exact call to approve.", allow_null=True, default=None)
    input_schema = ExactField("JSON Schema of the answer (docs/schemas.md).")
    verdicts = ListField(
        "Verdicts that reviewers can choose: approve, edit, reject, respond; answer, decline.",
        TextField(max_length=20),
        max_entries=6,
        allow_null=True,
        default=None,
    )
    assignees = ListField(
        "The only people who can decide, by e-mail address; the whole queue when empty.",
        EmailField(),
        max_entries=20,
        allow_null=True,
        default=None,
    )
    deadline = DateTimeField("Deadline. An answer at exactly this time is late.", allow_null=True, default=None)
    deadline_in = DurationField(
        "Deadline as a duration from now (ISO 8601), instead of `deadline`.", allow_null=True, default=None
    )
    evidence = ListField(
        "Findings of the agent that reviewers see.", EvidenceRequest(), max_entries=50, allow_null=True, default=None
    )
    on_expiry = OnExpiryRequest("What happens at the deadline.", allow_null=True, default=None)
    risk = ChoiceField("Risk: high, medium or low.", *Risk.values, allow_null=True, default=None)
    priority = IntegerField("Priority, 0 to 100; higher is more urgent.", min_value=0, max_value=100, default=50)
    quorum = IntegerField(
        "Number of people who must approve the same call; the policy's number when left out, and never fewer.",
        min_value=1,
        max_value=20,
        allow_null=True,
        default=None,
    )
    metadata = MetadataField(
        "Your own small object. Send numbers with a fraction as texts.", allow_null=True, default=None
    )
    facts = ListField(
        "Facts that the rest of the run relies on.", FactRequest(), max_entries=50, allow_null=True, default=None
    )
    correlation = KeyField(
        "Correlation id by which a signal answers this interrupt.", required=False, allow_null=True, default=None
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Refuse two deadlines."""
        if attrs["deadline"] is not None and attrs["deadline_in"] is not None:
            raise invalid_at("cannot be sent together with deadline", "deadline_in")
        return attrs


def asked_wait(sent: dict[str, Any], wait: dict[str, Any]) -> RequestedInterrupt:
    """Return the interrupt that is requested; ``sent`` is the body as it was received, which its digest covers."""
    kind = wait["kind"] or (Kind.INPUT if wait["proposal"] is None else Kind.APPROVAL)
    schema = wait["input_schema"]
    return RequestedInterrupt(
        key=wait["key"],
        kind=kind,
        reason=wait["reason"],
        title=wait["title"],
        request_digest=digest({name: value for name, value in sent.items() if name not in NOT_IN_DIGEST}),
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
        wish=RequestedTerms(
            queue=wait["queue"],
            deadline=wait["deadline"],
            deadline_in=wait["deadline_in"],
            on_expiry=as_sent(wait["on_expiry"]),
            risk=wait["risk"],
            quorum=wait["quorum"],
        ),
    )


def asked_facts(facts: list[dict[str, Any]] | None) -> list[RequestedFact]:
    """Return the facts of a request."""
    return [
        RequestedFact(
            name=fact["name"],
            value=fact["value"],
            on_change=fact["on_change"],
            kind=fact["kind"],
            **(fact["check"] or {}),
        )
        for fact in facts or []
    ]


def as_sent(members: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the members that were sent: one that was left out is not one that is null."""
    if members is None:
        return None
    return {name: value for name, value in members.items() if value is not ABSENT}
