"""Batches: several asks or decisions in one request. Each item has a result of its own.

Asks are created up to ``ASKS_OF_A_TRANSACTION`` at a time; what cannot be created with others, such as a repeated ask,
is processed by itself, as each decision is.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from typing import Any

from django.contrib.auth.models import AbstractUser
from django.db import InterfaceError, OperationalError
from rest_framework.request import Request
from rest_framework.response import Response

from ledger.errors import PayloadInvalid, Problem, Refusal
from ledger.log_context import note_run
from reviewqueue import permissions, resume_gateway
from reviewqueue.api import problems
from reviewqueue.api.authentication import count_items, person_of, recheck_key, worker_of
from reviewqueue.api.base_view import AGENT, PERSON, ApiView, Operation, request_key
from reviewqueue.api.openapi import examples
from reviewqueue.api.responses.interrupts import AskBatchResponse, AskedInterrupt, BatchResult, DecisionBatchResponse
from reviewqueue.api.serializers.fields import validated
from reviewqueue.api.serializers.reviewer_action_serializers import (
    BatchDecisionRequest,
    DecisionBatchRequest,
    answer,
    seen,
)
from reviewqueue.api.serializers.run_serializers import AskBatchRequest
from reviewqueue.api.views.runs import create_ask, requested_ask
from runs.models import Agent
from runs.use_cases.start_run import NewAsk, create_asks

log = logging.getLogger(__name__)

#: Asks in one transaction, and how many are worth one. The key of the request is checked again before each transaction.
ASKS_OF_A_TRANSACTION, LEAST_ASKS_OF_A_TRANSACTION = 20, 5

#: Processes one item. Returns what it returns alone, and whether that is new.
Process = Callable[[Any], tuple[Any, bool]]


class AskBatchView(ApiView):
    """Several asks."""

    @Operation(
        id="ask_batch",
        summary="Ask people several times with one call",
        description="Each ask is judged by itself, and has the result that `POST asks` would have returned: a refused "
        "one changes nothing about the others. A repeated batch returns the same runs and interrupts. Each ask "
        "counts as one call.",
        who=AGENT,
        request=AskBatchRequest,
        responses={207: AskBatchResponse},
        example=examples.ASK_BATCH,
        example_response=examples.ASKED_BATCH,
    )
    def post(self, request: Request) -> Response:
        agent = worker_of(request)
        items = self.validated_body(request)["asks"]
        count_items(request, len(items))
        results: list[BatchResult] = []
        while rest := items[len(results) :]:
            results += _process_asks(request, agent, rest[:ASKS_OF_A_TRANSACTION], place=len(results))
        return Response(AskBatchResponse.serialize(results), status=207)


class DecisionBatchView(ApiView):
    """Several decisions."""

    @Operation(
        id="decide_batch",
        summary="Decide several interrupts, each by itself",
        description="Each decision has the result that it would have had alone; an interrupt that you cannot see is "
        "`not_found` and stops no other decision. `POST decisions` refuses the whole call for such an id instead. A "
        "repeated batch returns the same receipts. Each decision counts as one call.",
        who=PERSON,
        request=DecisionBatchRequest,
        responses={207: DecisionBatchResponse},
        idempotency_key=True,
        example=examples.DECISION_BATCH,
        example_response=examples.DECIDED_BATCH,
    )
    def post(self, request: Request) -> Response:
        person, key = person_of(request), request_key(request)
        items = self.validated_body(request)["decisions"]
        results = _process_items(request, "decisions", items, lambda item: _decide(person, item, key))
        return Response(DecisionBatchResponse.serialize(results), status=207)


def _process_asks(request: Request, agent: Agent, items: list[Any], *, place: int) -> list[BatchResult]:
    """Create the asks in one transaction, and those that need one of their own afterwards. ``place``: that of the first."""
    created = _create_together(request, agent, items) if len(items) >= LEAST_ASKS_OF_A_TRANSACTION else {}

    def process(item: Any) -> tuple[Any, bool]:
        return create_ask(agent, _with_own_key(item))

    return [
        created[number] if number in created else _process_item(request, f"/asks/{place + number}", item, process)
        for number, item in enumerate(items)
    ]


def _create_together(request: Request, agent: Agent, items: list[Any]) -> dict[int, BatchResult]:
    """Return the results of the asks that one transaction created, by their place. It fails for all or for none."""
    asks: dict[int, NewAsk] = {}
    for number, item in enumerate(items):
        with contextlib.suppress(Exception):  # which is refused by itself
            asks[number] = requested_ask(_with_own_key(item))
    try:
        made = create_asks(
            agent=agent,
            asks=list(asks.values()),
            check_assignees=permissions.check_assignees,
            check_key=lambda: recheck_key(request),
        )
    except (Refusal, OperationalError, InterfaceError):  # each is refused or answered by itself
        return {}
    except Exception:
        log.exception("Asks of a batch could not be created together; each is created by itself")
        return {}
    for one in made:
        if one is not None:
            note_run(one[0].run.public_id)
    return {
        number: BatchResult(status=201, result=AskedInterrupt(interrupt=one[1], run=one[0].run))
        for number, one in zip(asks, made, strict=True)
        if one is not None
    }


def _with_own_key(item: Any) -> Any:
    if isinstance(item, dict) and item.get("key") is None:
        raise PayloadInvalid.at("/key", "is missing: each ask of a batch has its own")
    return item


def _decide(person: AbstractUser, item: Any, key: str) -> tuple[resume_gateway.Receipt, bool]:
    sent = validated(BatchDecisionRequest, item)
    receipt = resume_gateway.submit_decision(
        responder=person,
        interrupt_id=sent["interrupt"],
        answer=answer(sent),
        seen=seen(sent),
        door="api",
        request_key=sent["key"] or key,
    )
    return receipt, not receipt.replayed


def _process_items(request: Request, name: str, items: list[Any], process: Process) -> list[BatchResult]:
    """Process each item; the key of the request is checked again before each, because it can be revoked meanwhile."""
    count_items(request, len(items))
    return [_process_item(request, f"/{name}/{place}", item, process) for place, item in enumerate(items)]


def _process_item(request: Request, pointer: str, item: Any, process: Process) -> BatchResult:
    try:
        recheck_key(request)
        result, is_new = process(item)
    except Exception as error:  # noqa: BLE001  what happens to one item must not hide the results of the others
        problem = problems.body_of(_below(pointer, problems.refusal_of(error, request)))
        return BatchResult(status=problem["status"], problem=problem)
    return BatchResult(status=201 if is_new else 200, result=result)


def _below(pointer: str, refusal: Refusal) -> Refusal:
    """Let the errors of an item point into the body of the batch."""
    if refusal.errors:
        first = refusal.errors[0]
        refusal.errors = [Problem(pointer + error.pointer, error.message) for error in refusal.errors]
        if refusal.detail == f"{first.pointer or 'The body'} {first.message}.":
            refusal.detail = f"{pointer}{first.pointer} {first.message}."
    return refusal
