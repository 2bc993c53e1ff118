"""Administration of agents: keys, effect rules and connections, for owners of the agent and operators."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from ledger.errors import PayloadInvalid, Problem
from reviewqueue import permissions
from reviewqueue.api.authentication import person_of
from reviewqueue.api.openapi.operations import PERSON, Operation, describe
from reviewqueue.api.responses.administration import (
    AdministeredAgentResponse,
    AgentListResponse,
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
    AddConnectionRequest,
    AddEffectRuleRequest,
    AddKeyRequest,
    RemoveEffectRuleRequest,
    RotateKeyRequest,
    TestConnectionRequest,
)
from reviewqueue.api.serializers.fields import validated
from reviewqueue.api.serializers.run_serializers import EmptyRequest
from reviewqueue.api.views.base import ApiView, body_of
from reviewqueue.operations import administration
from reviewqueue.operations.provisioning import ProvisioningError

OWNERS = "For owners of the agent and operators; another agent is not found."
DEFAULT_OVERLAP = timedelta(days=1)


@contextmanager
def refused_as_invalid() -> Iterator[None]:
    """Turn the refusal of a change into a problem of the whole body."""
    try:
        yield
    except ProvisioningError as refused:
        raise PayloadInvalid(str(refused), errors=[Problem("", str(refused))]) from None


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
        person = person_of(request)
        sent = validated(AddAgentRequest, body_of(request))
        administration.refuse_unless_operator(person)
        with refused_as_invalid():
            _, key = administration.add_agent(person, sent["name"], owner=sent["owner"], effects=sent["effects"])
        return Response(NewAgentResponse.serialize(key), status=201)


class AgentView(ApiView):
    """One agent."""

    @describe(
        Operation(
            id="get_agent",
            summary="Return an agent with its effect rules and connections",
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
        person, sent = _read(request, slug, AddKeyRequest)
        with refused_as_invalid():
            made = administration.add_key(person, slug, **sent)
        return Response(NewKeyResponse.serialize(made), status=201)


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
        person, sent = _read(request, slug, RotateKeyRequest)
        overlap = sent.get("overlap", DEFAULT_OVERLAP)
        with refused_as_invalid():
            made = administration.rotate_key(person, slug, prefix, overlap=overlap, expires_at=sent["expires_at"])
        return Response(NewKeyResponse.serialize(made), status=201)


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
        person, _ = _read(request, slug, EmptyRequest)
        with refused_as_invalid():
            return Response(KeyResponse.serialize(administration.revoke_key(person, slug, prefix)))


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
        person, sent = _read(request, slug, AddEffectRuleRequest)
        with refused_as_invalid():
            rule = administration.add_effect_rule(person, slug, **sent)
        return Response(ConfiguredEffectRuleResponse.serialize(rule), status=201)


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
        person, sent = _read(request, slug, RemoveEffectRuleRequest)
        with refused_as_invalid():
            return Response(
                ConfiguredEffectRuleResponse.serialize(administration.remove_effect_rule(person, slug, **sent))
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
        person, sent = _read(request, slug, AddConnectionRequest)
        with refused_as_invalid():
            return Response(
                ConnectionResponse.serialize(administration.add_connection(person, slug, **sent)), status=201
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
        person, sent = _read(request, slug, TestConnectionRequest)
        with refused_as_invalid():
            trouble = administration.test_connection(person, slug, name=name, path=sent["path"])
        return Response(ConnectionTestResponse.serialize(trouble))


def _read(request: Request, slug: str, serializer: Any) -> tuple[Any, dict[str, Any]]:
    """Return the person, who administers the agent, and the body."""
    person, sent = person_of(request), validated(serializer, body_of(request))
    administration.find_agent(person, slug)
    return person, sent
