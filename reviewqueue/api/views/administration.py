"""Administration by API: agents with their keys, rules and connections, queues, and policies.

For owners and operators: the same changes as on the pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib.auth.models import AbstractUser

from ledger.errors import PayloadInvalid
from reviewqueue import permissions
from reviewqueue.api.base_view import ApiView
from reviewqueue.api.person_endpoint import OWNERS, endpoint
from reviewqueue.api.responses.administration import (
    AdministeredAgentResponse,
    AgentListResponse,
    CallLabelResponse,
    ConfiguredEffectRuleResponse,
    ConnectionResponse,
    ConnectionTestResponse,
    KeyListResponse,
    KeyResponse,
    NewAgentResponse,
    NewKeyResponse,
    PolicyListResponse,
    PolicyPreviewResponse,
    PolicyResponse,
    QueueListResponse,
    QueueResponse,
)
from reviewqueue.api.serializers.administration_serializers import (
    AddAgentRequest,
    AddCallLabelRequest,
    AddConnectionRequest,
    AddEffectRuleRequest,
    AddKeyRequest,
    AddPolicyRequest,
    AddQueueRequest,
    ChangeQueueRequest,
    EffectModeRequest,
    PreviewPolicyRequest,
    RemoveCallLabelRequest,
    RemoveEffectRuleRequest,
    RotateKeyRequest,
    TestConnectionRequest,
)
from reviewqueue.api.serializers.run_serializers import EmptyRequest
from reviewqueue.operations import administration, queue_administration
from reviewqueue.operations.api_keys import NewKey
from reviewqueue.operations.provisioning.policies import whole_seconds
from reviewqueue.operations.queue_administration import PolicyPreview
from runs.models import CallLabel, Policy

QUEUE_OWNERS = "For owners of the queue and operators; another queue is not found."
POLICY_OWNERS = "Operators change every policy, owners those of their agents within bounds; another one is not found."


# --- agents -----------------------------------------------------------------------------------------------------------


def _add_agent(person: AbstractUser, *, name: str, owner: str, effects: str) -> NewKey:
    return administration.add_agent(person, name, owner=owner, effects=effects)[1]


class AgentsView(ApiView):
    """The agents that a person administers."""

    get = endpoint(
        lambda person: permissions.owned_agents(person).order_by("slug"),
        id="list_agents",
        summary="List the agents that you administer",
        description="Owners administer the agents of their groups, operators all.",
        returns=AgentListResponse,
        refusals=(),
    )
    post = endpoint(
        _add_agent,
        id="add_agent",
        summary="Add an agent with its first key",
        description="For operators. No other response has the key.",
        request=AddAgentRequest,
        returns=NewAgentResponse,
        status=201,
    )


class AgentView(ApiView):
    """One agent."""

    get = endpoint(
        administration.find_agent,
        id="get_agent",
        summary="Return an agent with its effect rules, connections and call labels",
        returns=AdministeredAgentResponse,
    )


class KeysView(ApiView):
    """The keys of an agent."""

    get = endpoint(
        lambda person, slug: administration.keys_of(administration.find_agent(person, slug)),
        id="list_keys",
        summary="List the keys of an agent",
        returns=KeyListResponse,
    )
    post = endpoint(
        administration.add_key,
        id="add_key",
        summary="Make a key of an agent",
        description=f"No other response has the key. {OWNERS}",
        request=AddKeyRequest,
        returns=NewKeyResponse,
        status=201,
    )


class RotateKeyView(ApiView):
    """The successor of a key."""

    post = endpoint(
        administration.rotate_key,
        id="rotate_key",
        summary="Replace a key of an agent",
        description=f"The old key stays valid for the overlap. No other response has the new key. {OWNERS}",
        request=RotateKeyRequest,
        returns=NewKeyResponse,
        status=201,
    )


class RevokeKeyView(ApiView):
    """The end of a key."""

    post = endpoint(
        administration.revoke_key,
        id="revoke_key",
        summary="Revoke a key of an agent at once",
        description=f"Long polls of the key end with 401. {OWNERS}",
        request=EmptyRequest,
        returns=KeyResponse,
    )


class EffectRulesView(ApiView):
    """The effect rules of an agent."""

    post = endpoint(
        administration.add_effect_rule,
        id="add_effect_rule",
        summary="Add an effect rule of an agent",
        request=AddEffectRuleRequest,
        returns=ConfiguredEffectRuleResponse,
        status=201,
    )


class RemoveEffectRuleView(ApiView):
    """The removal of an effect rule."""

    post = endpoint(
        administration.remove_effect_rule,
        id="remove_effect_rule",
        summary="Remove an effect rule of an agent",
        description=f"Effects that have begun are not affected. {OWNERS}",
        request=RemoveEffectRuleRequest,
        returns=ConfiguredEffectRuleResponse,
    )


class ConnectionsView(ApiView):
    """The connections of an agent."""

    post = endpoint(
        administration.add_connection,
        id="add_connection",
        summary="Add a connection of an agent",
        request=AddConnectionRequest,
        returns=ConnectionResponse,
        status=201,
    )


class ConnectionTestView(ApiView):
    """A test of a connection."""

    post = endpoint(
        administration.test_connection,
        id="test_connection",
        summary="Make one call to a connection, as for a fact",
        description=f"The response says whether JSON came back, not what. {OWNERS}",
        request=TestConnectionRequest,
        returns=ConnectionTestResponse,
    )


class RemoveConnectionView(ApiView):
    """The removal of a connection."""

    post = endpoint(
        administration.remove_connection,
        id="remove_connection",
        summary="Remove a connection of an agent",
        description=f"A connection by which facts of runs were checked stays. {OWNERS}",
        request=EmptyRequest,
        returns=ConnectionResponse,
    )


class EffectModeView(ApiView):
    """Which effects an agent can begin."""

    post = endpoint(
        administration.set_effect_mode,
        id="set_effect_mode",
        summary="Let an agent begin any effect, or only listed ones",
        description=f"Effects that have begun are not affected. {OWNERS}",
        request=EffectModeRequest,
        returns=AdministeredAgentResponse,
    )


def _add_call_label(
    person: AbstractUser, slug: str, *, name: str, sentence: str, arguments: Sequence[dict[str, str]] = ()
) -> CallLabel:
    labels = {it["argument"]: {"label": it["label"]} | ({"unit": it["unit"]} if it["unit"] else {}) for it in arguments}
    if len(labels) != len(arguments):
        raise PayloadInvalid.at("/arguments", "must name each argument once")
    return administration.add_call_label(person, slug, name=name, sentence=sentence, arguments=labels)


class CallLabelsView(ApiView):
    """The call labels of an agent."""

    post = endpoint(
        _add_call_label,
        id="add_call_label",
        summary="Add the sentence by which reviewers read a call",
        request=AddCallLabelRequest,
        returns=CallLabelResponse,
        status=201,
    )


class RemoveCallLabelView(ApiView):
    """The removal of a call label."""

    post = endpoint(
        administration.remove_call_label,
        id="remove_call_label",
        summary="Remove a call label of an agent",
        description=f"The call is then shown by its name. {OWNERS}",
        request=RemoveCallLabelRequest,
        returns=CallLabelResponse,
    )


# --- queues -----------------------------------------------------------------------------------------------------------


class QueuesView(ApiView):
    """The queues that a person administers."""

    get = endpoint(
        queue_administration.queues_of,
        id="list_queues",
        summary="List the queues that you administer",
        description="Owners administer the queues of their groups, operators all.",
        returns=QueueListResponse,
        refusals=(),
    )
    post = endpoint(
        queue_administration.add_queue,
        id="add_queue",
        summary="Add a queue with the groups of its people",
        description="For operators.",
        request=AddQueueRequest,
        returns=QueueResponse,
        status=201,
    )


class QueueView(ApiView):
    """One queue."""

    get = endpoint(
        queue_administration.find_queue,
        id="get_queue",
        summary="Return a queue with the groups of its people",
        description=QUEUE_OWNERS,
        returns=QueueResponse,
    )
    patch = endpoint(
        queue_administration.change_queue,
        id="change_queue",
        summary="Close a queue for new requests, open it, or change its owner",
        description=f"Only operators change the owner. {QUEUE_OWNERS}",
        request=ChangeQueueRequest,
        returns=QueueResponse,
        refusals=("not_found", "stale_version"),
    )


# --- policies ---------------------------------------------------------------------------------------------------------


def _newest_policies(person: AbstractUser) -> list[Policy]:
    queue_administration.refuse_unless_administrator(person)
    return queue_administration.newest_policies(person)


def _add_policy(person: AbstractUser, *, reason: str, agent: str, based_on: int, rules: dict[str, Any]) -> Policy:
    return queue_administration.add_policy(person, reason, agent=agent, based_on=based_on, **_as_stored(rules))


def _preview_policy(person: AbstractUser, *, reason: str, agent: str, rules: dict[str, Any]) -> PolicyPreview:
    return queue_administration.preview_policy(person, reason, agent=agent, **_as_stored(rules))


def _as_stored(rules: dict[str, Any]) -> Any:
    """Return the rules of a body with the durations in lists in seconds. Raises ``ProvisioningError``."""
    stored = dict(rules)
    if "remind_before" in rules:
        stored["remind_before"] = [whole_seconds(length, "remind_before") for length in rules["remind_before"]]
    if "escalate_further" in rules:
        stored["escalate_further"] = [
            {"queue": step["queue"], "seconds": whole_seconds(step["wait"], "escalate_further")}
            for step in rules["escalate_further"]
        ]
    return stored


class PoliciesView(ApiView):
    """The policies that a person can read."""

    get = endpoint(
        _newest_policies,
        id="list_policies",
        summary="List the newest version of each policy",
        description="The general policies and those of your agents, for owners of a queue or agent and operators.",
        returns=PolicyListResponse,
    )
    post = endpoint(
        _add_policy,
        id="add_policy",
        summary="Add the next version of a policy",
        description=f"Open requests keep their version. {POLICY_OWNERS}",
        request=AddPolicyRequest,
        returns=PolicyResponse,
        status=201,
        refusals=("not_found", "stale_version"),
    )


class PreviewPolicyView(ApiView):
    """What the next version of a policy would change."""

    post = endpoint(
        _preview_policy,
        id="preview_policy",
        summary="Return what the next version of a policy would change",
        description=f"Nothing is stored. {POLICY_OWNERS}",
        request=PreviewPolicyRequest,
        returns=PolicyPreviewResponse,
    )
