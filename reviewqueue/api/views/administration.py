"""Administration of agents: keys, effect rules and connections, for owners of the agent and operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from django.contrib.auth.models import AbstractUser
from rest_framework.request import Request
from rest_framework.response import Response

from ledger.errors import PayloadInvalid, Problem
from reviewqueue import permissions
from reviewqueue.api.authentication import person_of
from reviewqueue.api.base_view import ApiView, body_of
from reviewqueue.api.openapi.operations import PERSON, Operation, describe
from reviewqueue.api.response_serializers import ResponseSerializer
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
)
from reviewqueue.api.serializers.administration_serializers import (
    AddAgentRequest,
    AddCallLabelRequest,
    AddConnectionRequest,
    AddEffectRuleRequest,
    AddKeyRequest,
    EffectModeRequest,
    RemoveCallLabelRequest,
    RemoveEffectRuleRequest,
    RotateKeyRequest,
    TestConnectionRequest,
)
from reviewqueue.api.serializers.fields import RequestSerializer, validated
from reviewqueue.api.serializers.run_serializers import EmptyRequest
from reviewqueue.operations import administration
from reviewqueue.operations.api_keys import NewKey
from reviewqueue.operations.provisioning.names import ProvisioningError
from runs.models import CallLabel

OWNERS = "For owners of the agent and operators; another agent is not found."


def apply_change(
    request: Request,
    change: Callable[..., Any],
    *path: str,
    sent: type[RequestSerializer],
    returns: type[ResponseSerializer],
    status: int = 200,
) -> Response:
    """Call ``change`` with the person, the names in the path and the members of the body, and return what it returns.

    Its refusal (``ProvisioningError``) becomes a problem of the rule that it names, or of the whole body.
    """
    person, members = person_of(request), validated(sent, body_of(request))
    try:
        made = change(person, *path, **members)
    except ProvisioningError as refused:
        pointer = f"/rules/{refused.rule}" if refused.rule else ""
        raise PayloadInvalid(str(refused), errors=[Problem(pointer, str(refused))]) from None
    return Response(returns.serialize(made), status=status)


class AgentsView(ApiView):
    """The agents that a person administers."""

    @describe(
        Operation(
            id="list_agents",
            summary="List the agents that you administer",
            description="Owners administer the agents of their groups, operators all.",
            who=PERSON,
            responses={200: AgentListResponse},
        )
    )
    def get(self, request: Request) -> Response:
        return Response(AgentListResponse.serialize(permissions.owned_agents(person_of(request)).order_by("slug")))

    @describe(
        Operation(
            id="add_agent",
            summary="Add an agent with its first key",
            description="For operators. No other response has the key.",
            who=PERSON,
            request=AddAgentRequest,
            responses={201: NewAgentResponse},
            refusals=("not_found",),
        )
    )
    def post(self, request: Request) -> Response:
        return apply_change(request, _add_agent, sent=AddAgentRequest, returns=NewAgentResponse, status=201)


def _add_agent(person: AbstractUser, **members: str) -> NewKey:
    return administration.add_agent(person, **members)[1]


class AgentView(ApiView):
    """One agent."""

    @describe(
        Operation(
            id="get_agent",
            summary="Return an agent with its effect rules, connections and call labels",
            description=OWNERS,
            who=PERSON,
            responses={200: AdministeredAgentResponse},
            refusals=("not_found",),
        )
    )
    def get(self, request: Request, slug: str) -> Response:
        return Response(AdministeredAgentResponse.serialize(administration.find_agent(person_of(request), slug)))


class KeysView(ApiView):
    """The keys of an agent."""

    @describe(
        Operation(
            id="list_keys",
            summary="List the keys of an agent",
            description=OWNERS,
            who=PERSON,
            responses={200: KeyListResponse},
            refusals=("not_found",),
        )
    )
    def get(self, request: Request, slug: str) -> Response:
        agent = administration.find_agent(person_of(request), slug)
        return Response(KeyListResponse.serialize(administration.keys_of(agent)))

    @describe(
        Operation(
            id="add_key",
            summary="Make a key of an agent",
            description=f"No other response has the key. {OWNERS}",
            who=PERSON,
            request=AddKeyRequest,
            responses={201: NewKeyResponse},
            refusals=("not_found",),
        )
    )
    def post(self, request: Request, slug: str) -> Response:
        return apply_change(
            request, administration.add_key, slug, sent=AddKeyRequest, returns=NewKeyResponse, status=201
        )


class RotateKeyView(ApiView):
    """The successor of a key."""

    @describe(
        Operation(
            id="rotate_key",
            summary="Replace a key of an agent",
            description=f"The old key stays valid for the overlap. No other response has the new key. {OWNERS}",
            who=PERSON,
            request=RotateKeyRequest,
            responses={201: NewKeyResponse},
            refusals=("not_found",),
        )
    )
    def post(self, request: Request, slug: str, prefix: str) -> Response:
        return apply_change(
            request, administration.rotate_key, slug, prefix, sent=RotateKeyRequest, returns=NewKeyResponse, status=201
        )


class RevokeKeyView(ApiView):
    """The end of a key."""

    @describe(
        Operation(
            id="revoke_key",
            summary="Revoke a key of an agent at once",
            description=f"Long polls of the key end with 401. {OWNERS}",
            who=PERSON,
            request=EmptyRequest,
            responses={200: KeyResponse},
            refusals=("not_found",),
        )
    )
    def post(self, request: Request, slug: str, prefix: str) -> Response:
        return apply_change(request, administration.revoke_key, slug, prefix, sent=EmptyRequest, returns=KeyResponse)


class EffectRulesView(ApiView):
    """The effect rules of an agent."""

    @describe(
        Operation(
            id="add_effect_rule",
            summary="Add an effect rule of an agent",
            description=OWNERS,
            who=PERSON,
            request=AddEffectRuleRequest,
            responses={201: ConfiguredEffectRuleResponse},
            refusals=("not_found",),
        )
    )
    def post(self, request: Request, slug: str) -> Response:
        return apply_change(
            request,
            administration.add_effect_rule,
            slug,
            sent=AddEffectRuleRequest,
            returns=ConfiguredEffectRuleResponse,
            status=201,
        )


class RemoveEffectRuleView(ApiView):
    """The removal of an effect rule."""

    @describe(
        Operation(
            id="remove_effect_rule",
            summary="Remove an effect rule of an agent",
            description=f"Effects that have begun are not affected. {OWNERS}",
            who=PERSON,
            request=RemoveEffectRuleRequest,
            responses={200: ConfiguredEffectRuleResponse},
            refusals=("not_found",),
        )
    )
    def post(self, request: Request, slug: str) -> Response:
        return apply_change(
            request,
            administration.remove_effect_rule,
            slug,
            sent=RemoveEffectRuleRequest,
            returns=ConfiguredEffectRuleResponse,
        )


class ConnectionsView(ApiView):
    """The connections of an agent."""

    @describe(
        Operation(
            id="add_connection",
            summary="Add a connection of an agent",
            description=OWNERS,
            who=PERSON,
            request=AddConnectionRequest,
            responses={201: ConnectionResponse},
            refusals=("not_found",),
        )
    )
    def post(self, request: Request, slug: str) -> Response:
        return apply_change(
            request,
            administration.add_connection,
            slug,
            sent=AddConnectionRequest,
            returns=ConnectionResponse,
            status=201,
        )


class ConnectionTestView(ApiView):
    """A test of a connection."""

    @describe(
        Operation(
            id="test_connection",
            summary="Make one call to a connection, as for a fact",
            description=f"The response says whether JSON came back, not what. {OWNERS}",
            who=PERSON,
            request=TestConnectionRequest,
            responses={200: ConnectionTestResponse},
            refusals=("not_found",),
        )
    )
    def post(self, request: Request, slug: str, name: str) -> Response:
        test = partial(administration.test_connection, name=name)
        return apply_change(request, test, slug, sent=TestConnectionRequest, returns=ConnectionTestResponse)


class RemoveConnectionView(ApiView):
    """The removal of a connection."""

    @describe(
        Operation(
            id="remove_connection",
            summary="Remove a connection of an agent",
            description=f"A connection by which facts of runs were checked stays. {OWNERS}",
            who=PERSON,
            request=EmptyRequest,
            responses={200: ConnectionResponse},
            refusals=("not_found",),
        )
    )
    def post(self, request: Request, slug: str, name: str) -> Response:
        remove = partial(administration.remove_connection, name=name)
        return apply_change(request, remove, slug, sent=EmptyRequest, returns=ConnectionResponse)


class EffectModeView(ApiView):
    """Which effects an agent can begin."""

    @describe(
        Operation(
            id="set_effect_mode",
            summary="Let an agent begin any effect, or only listed ones",
            description=f"Effects that have begun are not affected. {OWNERS}",
            who=PERSON,
            request=EffectModeRequest,
            responses={200: AdministeredAgentResponse},
            refusals=("not_found",),
        )
    )
    def post(self, request: Request, slug: str) -> Response:
        change = administration.set_effect_mode
        return apply_change(request, change, slug, sent=EffectModeRequest, returns=AdministeredAgentResponse)


class CallLabelsView(ApiView):
    """The call labels of an agent."""

    @describe(
        Operation(
            id="add_call_label",
            summary="Add the sentence by which reviewers read a call",
            description=OWNERS,
            who=PERSON,
            request=AddCallLabelRequest,
            responses={201: CallLabelResponse},
            refusals=("not_found",),
        )
    )
    def post(self, request: Request, slug: str) -> Response:
        return apply_change(
            request, _add_call_label, slug, sent=AddCallLabelRequest, returns=CallLabelResponse, status=201
        )


def _add_call_label(
    person: AbstractUser, slug: str, *, arguments: Sequence[dict[str, str]] = (), **members: str
) -> CallLabel:
    labels = {it["argument"]: {"label": it["label"]} | ({"unit": it["unit"]} if it["unit"] else {}) for it in arguments}
    if len(labels) != len(arguments):
        raise PayloadInvalid.at("/arguments", "must name each argument once")
    return administration.add_call_label(person, slug, arguments=labels, **members)


class RemoveCallLabelView(ApiView):
    """The removal of a call label."""

    @describe(
        Operation(
            id="remove_call_label",
            summary="Remove a call label of an agent",
            description=f"The call is then shown by its name. {OWNERS}",
            who=PERSON,
            request=RemoveCallLabelRequest,
            responses={200: CallLabelResponse},
            refusals=("not_found",),
        )
    )
    def post(self, request: Request, slug: str) -> Response:
        remove = administration.remove_call_label
        return apply_change(request, remove, slug, sent=RemoveCallLabelRequest, returns=CallLabelResponse)
