"""Standing rules: leads of a queue make them; others read and revoke them."""

from __future__ import annotations

from typing import Unpack

from django.contrib.auth.models import AbstractUser
from rest_framework.request import Request
from rest_framework.response import Response

from reviewqueue.api.authentication import person_of
from reviewqueue.api.base_view import PERSON, ApiView, Operation
from reviewqueue.api.pagination import PAGE, page
from reviewqueue.api.person_endpoint import endpoint
from reviewqueue.api.responses.standing_rules import (
    StandingRuleListResponse,
    StandingRulePreviewResponse,
    StandingRuleResponse,
)
from reviewqueue.api.serializers.standing_rule_serializers import RevokeStandingRuleRequest, StandingRuleRequest
from reviewqueue.standing_rules import administration
from runs.models import StandingRule

LEADS = "For leads of the queue who do not own the agent; other people who lead no queue get 404."
READERS = "The people of its queue, owners of the queue and of the agent, and operators read a rule."


def _add(person: AbstractUser, **terms: Unpack[administration.StatedTerms]) -> StandingRule:
    return administration.find_rule(person, administration.add_rule(person, **terms).public_id)


class StandingRulesView(ApiView):
    """The standing rules that a person can read."""

    @Operation(
        id="list_standing_rules",
        summary="List standing rules, newest first",
        description=READERS,
        who=PERSON,
        responses={200: StandingRuleListResponse},
        query=PAGE,
    )
    def get(self, request: Request) -> Response:
        query = self.validated_query(request)
        rows = administration.visible_rules(person_of(request))
        return Response(StandingRuleListResponse.serialize(page(rows, query)))

    post = endpoint(
        _add,
        id="add_standing_rule",
        summary="Approve requests in advance by a standing rule",
        description=f"It decides waiting and later requests within its bounds. {LEADS}",
        request=StandingRuleRequest,
        returns=StandingRuleResponse,
        status=201,
        refusals=("not_found", "not_permitted", "policy_refuses"),
    )


class PreviewStandingRuleView(ApiView):
    """What a standing rule would have decided."""

    post = endpoint(
        administration.preview_rule,
        id="preview_standing_rule",
        summary="Count the waiting and recent requests that a standing rule would have decided",
        description=f"Nothing is stored. {LEADS}",
        request=StandingRuleRequest,
        returns=StandingRulePreviewResponse,
        refusals=("not_found", "not_permitted", "policy_refuses"),
    )


class StandingRuleView(ApiView):
    """One standing rule."""

    get = endpoint(
        administration.find_rule,
        id="get_standing_rule",
        summary="Return a standing rule",
        description=READERS,
        returns=StandingRuleResponse,
    )


class RevokeStandingRuleView(ApiView):
    """The revocation of a standing rule."""

    post = endpoint(
        administration.revoke_rule,
        id="revoke_standing_rule",
        summary="Revoke a standing rule at once",
        description="Decisions of it whose effects have not begun lose their permits: people decide again. For leads "
        "and owners of the queue, owners of the agent and operators.",
        request=RevokeStandingRuleRequest,
        returns=StandingRuleResponse,
        refusals=("not_found", "not_permitted"),
    )
