"""Administration of queues and policies, for their owners and operators: the same changes as on the page."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import AbstractUser
from rest_framework.request import Request
from rest_framework.response import Response

from reviewqueue.api.authentication import person_of
from reviewqueue.api.base_view import ApiView
from reviewqueue.api.openapi.operations import PERSON, Operation, describe
from reviewqueue.api.responses.administration import (
    PolicyListResponse,
    PolicyPreviewResponse,
    PolicyResponse,
    QueueListResponse,
    QueueResponse,
)
from reviewqueue.api.serializers.administration_serializers import (
    AddPolicyRequest,
    AddQueueRequest,
    ChangeQueueRequest,
    PreviewPolicyRequest,
)
from reviewqueue.api.views.administration import apply_change
from reviewqueue.operations import queue_administration
from reviewqueue.operations.provisioning.policies import whole_seconds
from reviewqueue.operations.queue_administration import PolicyPreview
from runs.models import Policy, Queue

OWNERS = "For owners of the queue and operators; another queue is not found."
POLICY_OWNERS = "Operators change every policy, owners those of their agents within bounds; another one is not found."


class QueuesView(ApiView):
    """The queues that a person administers."""

    @describe(
        Operation(
            id="list_queues",
            summary="List the queues that you administer",
            description="Owners administer the queues of their groups, operators all.",
            who=PERSON,
            responses={200: QueueListResponse},
        )
    )
    def get(self, request: Request) -> Response:
        return Response(QueueListResponse.serialize(queue_administration.queues_of(person_of(request))))

    @describe(
        Operation(
            id="add_queue",
            summary="Add a queue with the groups of its people",
            description="For operators.",
            who=PERSON,
            request=AddQueueRequest,
            responses={201: QueueResponse},
            refusals=("not_found",),
        )
    )
    def post(self, request: Request) -> Response:
        add = queue_administration.add_queue
        return apply_change(request, add, sent=AddQueueRequest, returns=QueueResponse, status=201)


class QueueView(ApiView):
    """One queue."""

    @describe(
        Operation(
            id="get_queue",
            summary="Return a queue with the groups of its people",
            description=OWNERS,
            who=PERSON,
            responses={200: QueueResponse},
            refusals=("not_found",),
        )
    )
    def get(self, request: Request, slug: str) -> Response:
        return Response(QueueResponse.serialize(queue_administration.find_queue(person_of(request), slug)))

    @describe(
        Operation(
            id="change_queue",
            summary="Close a queue for new requests, open it, or change its owner",
            description=f"Only operators change the owner. {OWNERS}",
            who=PERSON,
            request=ChangeQueueRequest,
            responses={200: QueueResponse},
            refusals=("not_found", "stale_version"),
        )
    )
    def patch(self, request: Request, slug: str) -> Response:
        return apply_change(request, _change_queue, slug, sent=ChangeQueueRequest, returns=QueueResponse)


def _change_queue(person: AbstractUser, slug: str, *, state: str, **members: Any) -> Queue:
    return queue_administration.change_queue(person, slug, seen=state, **members)


class PoliciesView(ApiView):
    """The policies that a person can read."""

    @describe(
        Operation(
            id="list_policies",
            summary="List the newest version of each policy",
            description="The general policies and those of your agents, for owners of a queue or agent and operators.",
            who=PERSON,
            responses={200: PolicyListResponse},
            refusals=("not_found",),
        )
    )
    def get(self, request: Request) -> Response:
        person = person_of(request)
        queue_administration.refuse_unless_administrator(person)
        return Response(PolicyListResponse.serialize(queue_administration.newest_policies(person)))

    @describe(
        Operation(
            id="add_policy",
            summary="Add the next version of a policy",
            description=f"Open requests keep their version. {POLICY_OWNERS}",
            who=PERSON,
            request=AddPolicyRequest,
            responses={201: PolicyResponse},
            refusals=("not_found", "stale_version"),
        )
    )
    def post(self, request: Request) -> Response:
        return apply_change(request, _add_policy, sent=AddPolicyRequest, returns=PolicyResponse, status=201)


def _add_policy(person: AbstractUser, *, reason: str, agent: str, based_on: int, rules: dict[str, Any]) -> Policy:
    return queue_administration.add_policy(person, reason, agent=agent, based_on=based_on, **_as_stored(rules))


class PreviewPolicyView(ApiView):
    """What the next version of a policy would change."""

    @describe(
        Operation(
            id="preview_policy",
            summary="Return what the next version of a policy would change",
            description=f"Nothing is stored. {POLICY_OWNERS}",
            who=PERSON,
            request=PreviewPolicyRequest,
            responses={200: PolicyPreviewResponse},
            refusals=("not_found",),
        )
    )
    def post(self, request: Request) -> Response:
        return apply_change(request, _preview_policy, sent=PreviewPolicyRequest, returns=PolicyPreviewResponse)


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
