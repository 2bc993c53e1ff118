"""Request serializers of administration: agents, keys, effect rules, connections, queues and policies."""

from __future__ import annotations

from typing import Any

from reviewqueue.api.serializers.fields import (
    BooleanField,
    ChoiceField,
    DateTimeField,
    DurationField,
    IntegerField,
    ListField,
    RequestSerializer,
    TextField,
)
from reviewqueue.operations.api_keys import SCOPES
from reviewqueue.operations.provisioning.policies import CHOICES, DURATIONS, FLAGS, NUMBERS
from runs.states import EffectMode, OnExpiry


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


class EffectModeRequest(RequestSerializer):
    """Which effects an agent can begin."""

    effects = ChoiceField("`listed`: only effects with an effect rule. `any`: every effect.", *EffectMode.values)


class CallArgumentRequest(RequestSerializer):
    """How an argument of a call is shown."""

    argument = TextField("Name of the argument.", max_length=200, min_length=1)
    label = TextField("Label of the argument.", max_length=200, min_length=1)  # type: ignore[assignment]  # a field
    unit = TextField("Unit of its value.", max_length=60, default="")


class AddCallLabelRequest(RequestSerializer):
    """The sentence by which reviewers read a call."""

    name = TextField("Name of the call.", max_length=200, min_length=1)
    sentence = TextField("Sentence, with the names of arguments in braces.", max_length=300, min_length=1)
    arguments = ListField("Labels and units of its arguments.", CallArgumentRequest(), max_entries=100, required=False)


class RemoveCallLabelRequest(RequestSerializer):
    """The call label that is removed."""

    name = TextField("Name of the call.", max_length=200, min_length=1)


class AddQueueRequest(RequestSerializer):
    """A new queue."""

    name = TextField("Name of the queue: letters, digits, hyphens and underscores.", max_length=60, min_length=1)
    owner = TextField("Name of its owner group; a new name makes a new group.", max_length=150, min_length=1)


class ChangeQueueRequest(RequestSerializer):
    """A change of a queue."""

    state = TextField("The `state` of the queue that you read.", max_length=40, min_length=1)
    accepts_new = BooleanField("Whether new requests can go to it; left out, as before.", required=False)
    owner = TextField("Name of the new owner group, for operators; left out, as before.", max_length=150, default="")


class EscalationStepRequest(RequestSerializer):
    """A further queue of an escalation."""

    queue = TextField("Name of the queue.", max_length=60, min_length=1)
    wait = DurationField("Time to the deadline in this queue.")


def _name_of_queue(meaning: str, **more: Any) -> TextField:
    return TextField(meaning, max_length=60, min_length=1, required=False, **more)


#: Each rule of a policy that a call can state, by its name.
RULE_FIELDS: dict[str, Any] = {
    "queue": _name_of_queue("Queue of a request that names none."),
    "queues": ListField(
        "Other queues that a request can name.", TextField(max_length=60), max_entries=100, required=False
    ),
    "escalate_to": _name_of_queue("Next queue of an escalation; null: none.", allow_null=True),
    "escalate_further": ListField(
        "The queues after that one, in order.", EscalationStepRequest(), max_entries=20, required=False
    ),
    "remind_before": ListField(
        "Times before the deadline at which people are reminded.", DurationField(), max_entries=20, required=False
    ),
    "on_expiry_allowed": ListField(
        "Expiry actions that a request can set.",
        ChoiceField("An action.", *OnExpiry.values),
        max_entries=len(OnExpiry.values),
        required=False,
    ),
    **{name: DurationField(f"{label}.", required=False) for name, label in DURATIONS.items()},
    **{name: BooleanField(f"{label}.", required=False) for name, label in FLAGS.items()},
    **{name: ChoiceField(f"{label}.", *values, required=False) for name, (label, values) in CHOICES.items()},
    **{name: IntegerField(f"{label}.", max_value=1_000, required=False) for name, label in NUMBERS.items()},
}

PolicyRulesRequest = type(
    "PolicyRulesRequest",
    (RequestSerializer,),
    {"__doc__": "Rules of a policy; one left out keeps its value."} | RULE_FIELDS,
)


class PreviewPolicyRequest(RequestSerializer):
    """A version of a policy."""

    reason = TextField("Reason of the requests that it applies to.", max_length=60, min_length=1)
    agent = TextField(
        "Agent that it applies to; left out: each without a policy of its own.", max_length=60, default=""
    )
    rules = PolicyRulesRequest("The rules that differ from the newest version.")


class AddPolicyRequest(PreviewPolicyRequest):
    """The next version of a policy."""

    based_on = IntegerField("The newest version that you read; 0: there is none.")
