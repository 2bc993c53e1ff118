"""Planted requests: leads of a queue plant, list and withdraw them."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import AbstractUser
from rest_framework.request import Request
from rest_framework.response import Response

from reviewqueue.api.authentication import person_of
from reviewqueue.api.base_view import PERSON, ApiView, Operation
from reviewqueue.api.pagination import PAGE, page
from reviewqueue.api.person_endpoint import endpoint
from reviewqueue.api.responses.planted_requests import PlantedRequestListResponse, PlantedRequestResponse
from reviewqueue.api.serializers.planted_request_serializers import PlantRequest
from reviewqueue.api.serializers.run_serializers import EmptyRequest
from reviewqueue.review_quality import planted_requests
from runs.models import PlantedRequest

LEADS = "For leads of the queue. A lead reads their own, and those of others when they are closed."


def _plant(person: AbstractUser, **written: Any) -> PlantedRequest:
    return planted_requests.plant(person, **written)


class PlantedRequestsView(ApiView):
    """The planted requests that a lead can list."""

    @Operation(
        id="list_planted_requests",
        summary="List planted requests, newest first",
        description=LEADS,
        who=PERSON,
        responses={200: PlantedRequestListResponse},
        query=PAGE,
    )
    def get(self, request: Request) -> Response:
        query = self.validated_query(request)
        rows = planted_requests.visible_planted(person_of(request))
        return Response(PlantedRequestListResponse.serialize(page(rows, query)))

    post = endpoint(
        _plant,
        id="plant_request",
        summary="Plant a known-bad request",
        description="It appears in the queue like a request of the agent. No agent gets the answer, and nothing runs. "
        "For leads of the queue; other people who lead no queue get 404.",
        request=PlantRequest,
        returns=PlantedRequestResponse,
        status=201,
        refusals=("not_found", "policy_refuses", "no_decider", "agent_halted"),
    )


class PlantedRequestView(ApiView):
    """One planted request."""

    get = endpoint(
        planted_requests.find_planted,
        id="get_planted_request",
        summary="Return a planted request",
        description=LEADS,
        returns=PlantedRequestResponse,
    )


class WithdrawPlantedRequestView(ApiView):
    """The withdrawal of a planted request."""

    post = endpoint(
        planted_requests.withdraw,
        id="withdraw_planted_request",
        summary="Withdraw an open planted request",
        description="For the lead who planted it.",
        request=EmptyRequest,
        returns=PlantedRequestResponse,
        refusals=("not_found", "not_permitted", "already_decided", "withdrawn"),
    )
