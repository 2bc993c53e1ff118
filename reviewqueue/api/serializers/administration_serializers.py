"""Request serializers of administration: agents, keys, effect rules, connections, queues and policies."""

from __future__ import annotations

from reviewqueue.api.serializers.fields import (
    ChoiceField,
    DateTimeField,
    DurationField,
    ListField,
    RequestSerializer,
    TextField,
)
from reviewqueue.operations.api_keys import SCOPES
from runs.states import EffectMode


class AddAgentRequest(RequestSerializer):
    """A new agent."""

    name = TextField("Name of the agent: letters, digits, hyphens and underscores.", max_length=60, min_length=1)
    owner = TextField("Name of its owner group; a new name makes a new group.", max_length=150, min_length=1)
    effects = ChoiceField(
        "`listed`: only effects with an effect rule. `any`: every effect.",
        *EffectMode.values,
        default=EffectMode.LISTED.value,
    )


class AddKeyRequest(RequestSerializer):
    """A new key of an agent."""

    name = TextField("What the key is for.", max_length=100, min_length=1)
    scopes = ListField("What the key can do.", ChoiceField("A scope.", *SCOPES), min_entries=1, max_entries=len(SCOPES))
    expires_at = DateTimeField("Time at which the key expires.", default=None, allow_null=True)


class RotateKeyRequest(RequestSerializer):
    """How a key is replaced."""

    overlap = DurationField("How long the old key stays valid; left out: P1D.", required=False)
    expires_at = DateTimeField("Time at which the new key expires.", default=None, allow_null=True)


class AddEffectRuleRequest(RequestSerializer):
    """A new effect rule."""

    pattern = TextField("Name of the effects, or a pattern with * and ?.", max_length=200, min_length=1)
    reason = TextField("Reason of the required approval; left out, the effects are allowed.", max_length=60, default="")


class RemoveEffectRuleRequest(RequestSerializer):
    """The effect rule that is removed."""

    pattern = TextField("Exactly the pattern of the rule.", max_length=200, min_length=1)


class AddConnectionRequest(RequestSerializer):
    """A new connection."""

    name = TextField("Name of the connection.", max_length=60, min_length=1)
    url = TextField("Base address, http or https.", max_length=500, min_length=1)
    secret = TextField(
        "Environment variable with its secret, which begins with CONNECTION_; for operators only.",
        max_length=100,
        default="",
    )


class TestConnectionRequest(RequestSerializer):
    """The call of a test."""

    path = TextField("Path below the base address.", max_length=500, default="/")
