"""Request serializers of standing rules."""

from __future__ import annotations

from reviewqueue.api.serializers.fields import (
    ChoiceField,
    DateTimeField,
    ExactField,
    IntegerField,
    ListField,
    RequestSerializer,
    TextField,
)
from runs.standing_rules import MAX_BOUNDS, MAX_LENGTH, MAX_USES, TESTS


class BoundRequest(RequestSerializer):
    """A bound of one member of the proposal."""

    pointer = TextField("JSON Pointer into the proposal, which begins with /arguments/.", max_length=300, min_length=1)
    test = ChoiceField("How the member is compared with `value`.", *TESTS)
    value = ExactField("A number, or its text; with `equals` any text, number, boolean or null.", required=True)


class StandingRuleRequest(RequestSerializer):
    """A standing rule."""

    queue = TextField("Slug of the queue, which you lead.", max_length=60, min_length=1)
    agent = TextField("Slug of the agent.", max_length=60, min_length=1)
    reason = TextField("Reason of the requests.", max_length=60, min_length=1)
    call = TextField("Exact name of the call.", max_length=200, min_length=1)
    bounds = ListField(
        "Bounds that must all allow the proposal.", BoundRequest(), max_entries=MAX_BOUNDS, required=False
    )
    max_uses = IntegerField("How many requests it can decide.", min_value=1, max_value=MAX_USES)
    ends_at = DateTimeField(f"Time at which it ends, at most {MAX_LENGTH.days} days from now.")
    note = TextField("Why you make it.", max_length=300, min_length=1)


class RevokeStandingRuleRequest(RequestSerializer):
    """Why a standing rule is revoked."""

    reason = TextField("Why you revoke it.", max_length=300, min_length=1)
