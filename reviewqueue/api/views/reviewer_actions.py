"""Reviewers' actions on an interrupt: claim, release, assign, extend, undo, comment; and several decisions in one call."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractUser
from rest_framework.request import Request
from rest_framework.response import Response

from ledger.errors import PayloadInvalid, Problem, Refusal
from reviewqueue import permissions, resume_gateway, reviewer_actions
from reviewqueue.api import problems
from reviewqueue.api.authentication import person_of
from reviewqueue.api.base_view import CLOSED, PERSON, ApiView, Operation, request_key
from reviewqueue.api.pagination import PAGE, page
from reviewqueue.api.responses.interrupts import (
    Assignment,
    AssignmentResponse,
    BulkDecisionsResponse,
    CommentListResponse,
    CommentResponse,
    DecisionResult,
    InterruptMarkResponse,
    ReviewerClaimResponse,
)
from reviewqueue.api.serializers.reviewer_action_serializers import (
    AssignRequest,
    BulkDecisionsRequest,
    CommentRequest,
    ExtendRequest,
    answer,
    seen,
)
from reviewqueue.api.serializers.run_serializers import EmptyRequest


class ClaimView(ApiView):
    """A reviewer's claim."""

    @Operation(
        id="claim",
        summary="Claim an interrupt for a while, or renew the claim",
        who=PERSON,
        request=EmptyRequest,
        responses={200: ReviewerClaimResponse},
        refusals=("not_found", "self_review", "claimed_by_other", *CLOSED),
    )
    def post(self, request: Request, interrupt_id: str) -> Response:
        person = person_of(request)
        self.validated_body(request)
        interrupt = reviewer_actions.claim_request(responder=person, interrupt_id=interrupt_id)
        return Response(ReviewerClaimResponse.serialize(interrupt))


class ReleaseView(ApiView):
    """The end of a reviewer's claim."""

    @Operation(
        id="release",
        summary="Release an interrupt",
        who=PERSON,
        request=EmptyRequest,
        responses={200: ReviewerClaimResponse},
        refusals=("not_found", "claimed_by_other"),
    )
    def post(self, request: Request, interrupt_id: str) -> Response:
        person = person_of(request)
        self.validated_body(request)
        interrupt = reviewer_actions.release_request(responder=person, interrupt_id=interrupt_id)
        return Response(ReviewerClaimResponse.serialize(interrupt))


class AssignView(ApiView):
    """The people who decide an interrupt."""

    @Operation(
        id="assign",
        summary="Assign an interrupt to people",
        description="For leads of the queue and operators. An empty list returns it to the queue.",
        who=PERSON,
        request=AssignRequest,
        responses={200: AssignmentResponse},
        refusals=("not_found", "no_decider", "policy_refuses", *CLOSED),
    )
    def post(self, request: Request, interrupt_id: str) -> Response:
        person = person_of(request)
        named = self.validated_body(request)["people"]
        interrupt = reviewer_actions.assign_request(responder=person, interrupt_id=interrupt_id, people=_people(named))
        return Response(AssignmentResponse.serialize(Assignment(interrupt=interrupt, assignees=named)))


def _people(addresses: list[str]) -> list[AbstractUser]:
    found = {person.get_username(): person for person in get_user_model().objects.filter(username__in=addresses)}
    known = {address: found[address] for address in addresses if address in found}
    for place, address in enumerate(addresses):
        if address not in known:
            raise PayloadInvalid.at(f"/people/{place}", "is not a known user")
    return list(known.values())


class ExtendView(ApiView):
    """The deadline of an interrupt."""

    @Operation(
        id="extend",
        summary="Extend the deadline of an interrupt",
        description="For leads of the queue and operators, up to the longest deadline of the policy.",
        who=PERSON,
        request=ExtendRequest,
        responses={200: InterruptMarkResponse},
        refusals=("not_found", "policy_refuses", *CLOSED),
    )
    def post(self, request: Request, interrupt_id: str) -> Response:
        person = person_of(request)
        by = self.validated_body(request)["by"]
        interrupt = reviewer_actions.extend_deadline(responder=person, interrupt_id=interrupt_id, by=by)
        return Response(InterruptMarkResponse.serialize(interrupt))


class UndoView(ApiView):
    """The undo of a decision."""

    @Operation(
        id="undo",
        summary="Undo your decision",
        description="Within the time that the policy allows, and before a worker has claimed the answer.",
        who=PERSON,
        request=EmptyRequest,
        responses={200: InterruptMarkResponse},
        refusals=("not_found", "undo_too_late"),
    )
    def post(self, request: Request, interrupt_id: str) -> Response:
        person = person_of(request)
        self.validated_body(request)
        interrupt = reviewer_actions.undo_decision(responder=person, interrupt_id=interrupt_id)
        return Response(InterruptMarkResponse.serialize(interrupt))


class CommentsView(ApiView):
    """The comments of reviewers. The agent never sees them."""

    @Operation(
        id="list_comments",
        summary="List the comments on an interrupt, newest first",
        who=PERSON,
        responses={200: CommentListResponse},
        refusals=("not_found",),
        query=PAGE,
    )
    def get(self, request: Request, interrupt_id: str) -> Response:
        query = self.validated_query(request)
        interrupt = resume_gateway.get_visible_interrupt(person_of(request), interrupt_id)
        found = page(interrupt.comments.select_related("person"), query, sized="text")
        return Response(CommentListResponse.serialize(found))

    @Operation(
        id="comment",
        summary="Comment on an interrupt",
        description="Other reviewers see the comment; the agent never does.",
        who=PERSON,
        request=CommentRequest,
        responses={201: CommentResponse},
        refusals=("not_found",),
    )
    def post(self, request: Request, interrupt_id: str) -> Response:
        person = person_of(request)
        text = self.validated_body(request)["text"]
        comment = reviewer_actions.add_comment(responder=person, interrupt_id=interrupt_id, text=text)
        return Response(CommentResponse.serialize(comment), status=201)


class BulkDecisionsView(ApiView):
    """Decisions on several interrupts."""

    @Operation(
        id="decide_many",
        summary="Decide several interrupts",
        description="Each decision is judged by itself and has its own result. An id that is missing, repeated or not "
        "visible to you refuses the whole call, and nothing is stored.",
        who=PERSON,
        request=BulkDecisionsRequest,
        responses={207: BulkDecisionsResponse},
        idempotency_key=True,
    )
    def post(self, request: Request) -> Response:
        person, key = person_of(request), request_key(request)
        sent = self.validated_body(request)["decisions"]
        _refuse_unknown(person, [decision["interrupt"] for decision in sent])
        results = [_decide(person, decision, key) for decision in sent]
        return Response(BulkDecisionsResponse.serialize(results), status=207)


def _refuse_unknown(person: AbstractUser, ids: list[str]) -> None:
    visible = permissions.visible_interrupts(person).filter(public_id__in=ids)
    known = set(visible.values_list("public_id", flat=True))
    unknown = [
        Problem(f"/decisions/{place}/interrupt", "is not found") for place, it in enumerate(ids) if it not in known
    ]
    if unknown:
        raise PayloadInvalid("Some of these interrupts are not found; nothing was stored.", errors=unknown)


def _decide(person: AbstractUser, sent: dict[str, Any], key: str) -> DecisionResult:
    try:
        receipt = resume_gateway.submit_decision(
            responder=person,
            interrupt_id=sent["interrupt"],
            answer=answer(sent),
            seen=seen(sent),
            door="api",
            request_key=key,
        )
    except Refusal as refusal:
        problem = problems.body_of(refusal)
        return DecisionResult(interrupt=sent["interrupt"], status=problem["status"], problem=problem)
    return DecisionResult(interrupt=sent["interrupt"], status=200 if receipt.replayed else 201, receipt=receipt)
