"""Responses about planted requests."""

from __future__ import annotations

from reviewqueue.api.response_serializers import (
    DATETIME,
    OBJECT,
    TEXT,
    ResponseSerializer,
    choice,
    list_of,
    member,
    nullable,
)
from reviewqueue.api.responses.runs import NEXT_PAGE
from reviewqueue.review_quality.planted_requests import CATCHING, STATUS_LABELS, status_of


class PlantedRequestResponse(ResponseSerializer):
    """A planted request, for leads of its queue (``PlantedRequest``)."""

    id = member(TEXT, "Id of the planted request.", "public_id")
    status = member(choice(STATUS_LABELS), "`caught` or `missed` after a decision.", status_of)
    interrupt = member(TEXT, "Id of the interrupt.", "interrupt.public_id")
    queue = member(TEXT, "Slug of the queue.", "queue.slug")
    agent = member(TEXT, "Slug of the agent whose request it seems to be.", "interrupt.agent.slug")
    proposal = member(OBJECT, "The call that it proposes.", "interrupt.proposal")
    fault = member(TEXT, "What is wrong with it.")
    expected = member(list_of(choice(CATCHING)), "Verdicts that catch the fault.")
    planted_by = member(TEXT, "Address of the lead who planted it.", "planted_by.username")
    created_at = member(DATETIME, "Time at which it was planted.")
    closed_at = member(nullable(DATETIME), "Time at which it was closed; null: it is open.")
    decided_by = member(
        nullable(TEXT),
        "Address of the person who decided it; null: no person did.",
        lambda row: None if row.decision is None or row.decision.by is None else row.decision.by.get_username(),
    )
    decision = member(
        nullable(TEXT),
        "Id of the decision; null: no person decided it.",
        lambda row: None if row.decision is None else row.decision.public_id,
    )


class PlantedRequestListResponse(ResponseSerializer):
    """A page of planted requests (``ListPage``)."""

    planted_requests = member(list_of(PlantedRequestResponse), "Planted requests, newest first.", "rows")
    next = member(nullable(TEXT), NEXT_PAGE)
