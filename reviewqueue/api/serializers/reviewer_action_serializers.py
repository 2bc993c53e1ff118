"""What requests around a wait and about a run look like: amend, assign, extend, comment, many decisions, run control."""

from __future__ import annotations

from typing import Any

from ledger.exact_json import ABSENT
from reviewqueue.api.serializers.fields import (
    KEY,
    Address,
    Field,
    Many,
    Moment,
    Shape,
    Span,
    Text,
    Whole,
    wrong,
    wrong_in,
)
from reviewqueue.api.serializers.interrupt_serializers import FactShape, Proposal, as_sent, asked_facts
from reviewqueue.api.serializers.run_serializers import DecisionShape
from reviewqueue.gateway import Seen
from runs.decisions import Answer
from runs.use_cases.amend_interrupt import Amendment
from runs.use_cases.control_run import KEEP, REDO

MOST_DECISIONS = 50


class ReasonShape(Shape):
    """A call that may say why."""

    reason = Text(most=300, allow_null=True, default=None)


class NeedsReasonShape(Shape):
    """A call that has to say why."""

    reason = Text(most=300, least=1)


class Choices(Field):
    """`{key: keep | redo}`: what a restart does with each failed or compensated effect."""

    def to_internal_value(self, data: Any) -> dict[str, str]:
        """Return the choices."""
        if not isinstance(data, dict):
            raise wrong("has to be an object")
        for key, choice in data.items():
            if not KEY.fullmatch(key):
                raise wrong_in("is no effect's key", key)
            if choice not in (KEEP, REDO):
                raise wrong_in("has to be keep or redo", key)
        return data


class RestartShape(NeedsReasonShape):
    """`POST runs/{id}/restart`."""

    checkpoint = Whole(allow_null=True, default=None)
    effects = Choices(allow_null=True, default=None)


class RetagShape(NeedsReasonShape):
    """`POST runs/{id}/retag`."""

    code_version = Text(most=100, least=1)


class AmendShape(Shape):
    """`PATCH interrupts/{id}`: what changes; what is left out stays."""

    state_version = Whole(least=1, allow_null=True, default=None)
    title = Text(most=300, least=1, default=ABSENT)
    message = Text(most=100_000, default=ABSENT)
    proposal = Proposal(allow_null=True, default=ABSENT)
    facts = Many(FactShape(), most=50, default=ABSENT)
    deadline = Moment(default=ABSENT)


def amendment(sent: dict[str, Any]) -> tuple[Amendment, int | None]:
    """Return what changes, and the version that the agent believes to wait."""
    return Amendment(
        title=sent["title"],
        message=sent["message"],
        proposal=sent["proposal"] if sent["proposal"] is ABSENT else as_sent(sent["proposal"]),
        facts=ABSENT if sent["facts"] is ABSENT else asked_facts(sent["facts"]),
        deadline=sent["deadline"],
    ), sent["state_version"]


class AssignShape(Shape):
    """`POST interrupts/{id}/assign`; an empty list gives it back to the queue."""

    people = Many(Address(), most=20)


class ExtendShape(Shape):
    """`POST interrupts/{id}/extend`."""

    by = Span()


class CommentShape(Shape):
    """`POST interrupts/{id}/comments`."""

    text = Text(most=10_000, least=1)


class OneDecision(DecisionShape):
    """One answer among many, with the wait that it answers."""

    interrupt = Text(most=40, least=1)


class ManyDecisionsShape(Shape):
    """`POST decisions`: each wait once."""

    decisions = Many(OneDecision(), least=1, most=MOST_DECISIONS)

    def validate_decisions(self, decisions: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Refuse a wait that is answered twice."""
        ids = [decision["interrupt"] for decision in decisions]
        for place, interrupt in enumerate(ids):
            if interrupt in ids[:place]:
                raise wrong_in("is answered twice in this request", place, "interrupt")
        return decisions


def answer(sent: dict[str, Any]) -> Answer:
    """Return the answer of a request."""
    return Answer(
        verdict=sent["verdict"], input=sent["input"], arguments=sent["arguments"], message=sent["message"] or ""
    )


def seen(sent: dict[str, Any]) -> Seen:
    """Return what the responder answered."""
    return Seen(state_version=sent["state_version"], content_digest=sent["content_digest"] or "")
