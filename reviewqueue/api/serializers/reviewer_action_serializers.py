"""Request serializers of decisions, of reviewers' actions on an interrupt, and of run control."""

from __future__ import annotations

from typing import Any

from ledger.exact_json import ABSENT
from reviewqueue.api.serializers.fields import (
    KEY,
    MAX_BATCH,
    BatchField,
    BooleanField,
    DateTimeField,
    DurationField,
    EmailField,
    ExactField,
    Field,
    IntegerField,
    KeyField,
    ListField,
    RequestSerializer,
    Resolve,
    Schema,
    TextField,
    invalid,
    invalid_at,
)
from reviewqueue.api.serializers.interrupt_serializers import FactRequest, ProposalRequest, as_sent, asked_facts
from reviewqueue.resume_gateway import ShownVersion
from runs.decisions import MESSAGE_LIMIT, Answer
from runs.use_cases.amend_interrupt import Amendment
from runs.use_cases.control_run import KEEP, REDO

MAX_BULK_DECISIONS = 50

_REASON = "Reason for this action, for people."


class OptionalReasonRequest(RequestSerializer):
    """An action with an optional reason."""

    reason = TextField(_REASON, max_length=300, allow_null=True, default=None)


class ReasonRequest(RequestSerializer):
    """An action that needs a reason."""

    reason = TextField(_REASON, max_length=300, min_length=1)


class EffectChoicesField(Field):
    """`{key: keep | redo}`: what a restart does with each failed or compensated effect."""

    def to_internal_value(self, data: Any) -> dict[str, str]:
        if not isinstance(data, dict):
            raise invalid("must be an object")
        for key, choice in data.items():
            if not KEY.fullmatch(key):
                raise invalid_at("is not an effect's key", key)
            if choice not in (KEEP, REDO):
                raise invalid_at(f"must be {KEEP} or {REDO}", key)
        return data

    def json_schema(self, resolve: Resolve) -> Schema:
        return {"type": "object", "additionalProperties": {"enum": [KEEP, REDO]}}


class RestartRunRequest(ReasonRequest):
    """From which checkpoint an ended run is restarted, and which effects are performed again."""

    checkpoint = IntegerField(
        "Number of the checkpoint to restart from; the last one when left out.", allow_null=True, default=None
    )
    effects = EffectChoicesField(
        "What to do with each failed or compensated effect, by key: `keep` its outcome, or `redo` it.",
        allow_null=True,
        default=None,
    )


class RetagRunRequest(ReasonRequest):
    """The code version that continues a run."""

    code_version = TextField("Version of the agent's code that continues the run.", max_length=100, min_length=1)


class AmendInterruptRequest(RequestSerializer):
    """What changes; members that are left out stay."""

    state_version = IntegerField(
        "Version that you want to change; a newer one refuses the call.", min_value=1, allow_null=True, default=None
    )
    title = TextField("One line that reviewers read.", max_length=300, min_length=1, default=ABSENT)
    message = TextField("The agent's message to reviewers, in markdown.", max_length=100_000, default=ABSENT)
    proposal = ProposalRequest("The exact call to approve.", allow_null=True, default=ABSENT)
    facts = ListField("Facts that the rest of the run relies on.", FactRequest(), max_entries=50, default=ABSENT)
    deadline = DateTimeField("Deadline. An answer at exactly this time is late.", default=ABSENT)


def amendment(sent: dict[str, Any]) -> tuple[Amendment, int | None]:
    """Return what changes, and the version that the agent wants to change."""
    return Amendment(
        title=sent["title"],
        message=sent["message"],
        proposal=sent["proposal"] if sent["proposal"] is ABSENT else as_sent(sent["proposal"]),
        facts=ABSENT if sent["facts"] is ABSENT else asked_facts(sent["facts"]),
        deadline=sent["deadline"],
    ), sent["state_version"]


class AssignRequest(RequestSerializer):
    """Who decides an interrupt."""

    people = ListField(
        "The people who can decide, by e-mail address. An empty list returns the interrupt to its queue.",
        EmailField(),
        max_entries=20,
    )


class ExtendRequest(RequestSerializer):
    """A later deadline."""

    by = DurationField("How much later the deadline is (ISO 8601).")


class CommentRequest(RequestSerializer):
    """A comment for other reviewers."""

    text = TextField("Text of the comment.", max_length=10_000, min_length=1)


class DecisionRequest(RequestSerializer):
    """A person's decision."""

    state_version = IntegerField("Version of the interrupt that the person saw.", min_value=1)
    content_digest = TextField(
        "Digest of what the person saw; if it is sent, it must match too.", max_length=68, allow_null=True, default=None
    )
    verdict = TextField("One of the interrupt's verdicts.", max_length=20)
    input = ExactField("The answer. Null, false, 0, an empty text and an empty list are answers.")
    arguments = ExactField("With `edit`: all arguments of the call, as approved.")
    message = TextField("Message to the agent.", max_length=MESSAGE_LIMIT, allow_null=True, default=None)
    confirm_hidden_characters = BooleanField(
        "True: the person has seen that the call has hidden or look-alike characters (`confirmation_required`).",
        default=False,
    )


class BulkDecisionRequest(DecisionRequest):
    """One decision of several, with its interrupt."""

    interrupt = TextField("Id of the interrupt.", max_length=40, min_length=1)


class BulkDecisionsRequest(RequestSerializer):
    """Decisions on several interrupts."""

    decisions = ListField(
        "Decisions, each interrupt at most once.", BulkDecisionRequest(), min_entries=1, max_entries=MAX_BULK_DECISIONS
    )

    def validate_decisions(self, decisions: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Refuse an interrupt that is decided twice."""
        ids = [decision["interrupt"] for decision in decisions]
        for place, interrupt in enumerate(ids):
            if interrupt in ids[:place]:
                raise invalid_at("is decided twice in this request", place, "interrupt")
        return decisions


class BatchDecisionRequest(BulkDecisionRequest):
    """One decision of a batch, with its interrupt."""

    key = KeyField(
        "Your key of this decision; the header Idempotency-Key when left out.",
        required=False,
        allow_null=True,
        default=None,
    )


class DecisionBatchRequest(RequestSerializer):
    """Several decisions, each judged by itself."""

    decisions = BatchField(
        "The decisions. Each is validated and recorded by itself.",
        BatchDecisionRequest(),
        min_entries=1,
        max_entries=MAX_BATCH,
    )


def answer(sent: dict[str, Any]) -> Answer:
    """Return the answer of a request."""
    return Answer(
        verdict=sent["verdict"], input=sent["input"], arguments=sent["arguments"], message=sent["message"] or ""
    )


def seen(sent: dict[str, Any]) -> ShownVersion:
    """Return the version and digest that the person saw."""
    return ShownVersion(
        state_version=sent["state_version"],
        content_digest=sent["content_digest"] or "",
        confirms_hidden=sent["confirm_hidden_characters"],
    )
