"""Interrupts: listed, polled, decided, amended and withdrawn. An agent sees its own without the answer."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from ledger import clock
from reviewqueue import resume_gateway
from reviewqueue.api.authentication import Caller, caller_of, person_of, recheck_key, worker_of
from reviewqueue.api.base_view import AGENT as AGENT_KEY
from reviewqueue.api.base_view import (
    BOTH,
    CLOSED,
    DECIDING,
    PERSON,
    ApiView,
    Operation,
    choice_parameter,
    integer_parameter,
    request_key,
    slug_parameter,
    text_parameter,
)
from reviewqueue.api.long_poll import poll_until
from reviewqueue.api.openapi import examples
from reviewqueue.api.pagination import PAGE, page
from reviewqueue.api.responses.interrupts import (
    AmendedInterruptResponse,
    InterruptDetail,
    InterruptListResponse,
    InterruptResponse,
    ReceiptResponse,
    WithdrawnInterrupt,
    WithdrawnInterruptResponse,
    view_of_person,
)
from reviewqueue.api.scoped_querysets import find_interrupt, interrupts_of, refuse_unknown_names, scope_of
from reviewqueue.api.serializers.reviewer_action_serializers import (
    AmendInterruptRequest,
    DecisionRequest,
    OptionalReasonRequest,
    amendment,
    answer,
    seen,
)
from reviewqueue.api.serializers.run_serializers import MAX_POLL_SECONDS
from reviewqueue.queries.visible_ranges import interrupt_ranges
from runs import child_runs
from runs.decisions import find_winning_decision, tally_votes
from runs.models import Agent, Interrupt, Queue
from runs.states import InterruptStatus, Risk
from runs.use_cases import amend_interrupt

QUEUE = slug_parameter("queue", "Slug of a queue.")
STATUS = choice_parameter("status", "Status of the interrupts.", InterruptStatus.values)
REASON = text_parameter("reason", "Reason code, as policies name it.")
RISK = choice_parameter("risk", "Risk.", Risk.values)
AGENT = slug_parameter("agent", "Slug of an agent.")
FILTERS = (QUEUE, STATUS, REASON, RISK, AGENT)
WAIT = integer_parameter(
    "wait",
    "How long to wait until the status is no longer `waiting`, in seconds.",
    default=0,
    min_value=0,
    max_value=MAX_POLL_SECONDS,
)


class InterruptsView(ApiView):
    """All interrupts that the caller may see."""

    @Operation(
        id="list_interrupts",
        summary="List interrupts, newest first",
        who=BOTH,
        responses={200: InterruptListResponse},
        query=(*FILTERS, *PAGE),
    )
    def get(self, request: Request) -> Response:
        query = self.validated_query(request)
        caller = caller_of(request)
        rows = Interrupt.objects.select_related("queue", "run").defer("message", "proposal", "evidence")
        columns: dict[str, Any] = {
            known.name: query[known.name] for known in (STATUS, REASON, RISK) if known.name in query
        }
        # By primary keys, because the planner knows how many rows each queue and agent has, but not which slug is whose.
        for known, model in ((QUEUE, Queue), (AGENT, Agent)):
            if known.name in query:
                named = model.objects.filter(slug=query[known.name]).values_list("pk", flat=True)
                columns[known.name] = named.first() or 0
        if caller.person is None:
            columns["run__planted"] = None
        ranges = interrupt_ranges(scope_of(caller), _statuses(query))
        found = page(rows.filter(**columns), query, ranges=ranges)
        if not found.rows:
            refuse_unknown_names(caller, query)  # a name with rows is known
        return Response(InterruptListResponse.serialize(found))


def _statuses(query: dict[str, str]) -> list[str]:
    return [query[STATUS.name]] if STATUS.name in query else list(InterruptStatus.values)


class InterruptView(ApiView):
    """One interrupt."""

    @Operation(
        id="read_interrupt",
        summary="Get an interrupt, or wait for its answer",
        description="With `wait`, responds when the status is no longer `waiting`. An agent's key learns that there "
        "is an answer, never which: the answer comes with the claim.",
        who=BOTH,
        responses={200: InterruptResponse},
        refusals=("not_found",),
        query=(WAIT,),
        returns_retry_after=True,
        example_response=examples.INTERRUPT,
    )
    def get(self, request: Request, interrupt_id: str) -> Response:
        caller, query = caller_of(request), self.validated_query(request)
        seconds = WAIT.read(query)
        interrupt = find_interrupt(caller, interrupt_id)
        headers = {}
        if seconds and interrupt.status == InterruptStatus.WAITING:
            polled = poll_until(
                lambda _: Interrupt.objects.values_list("status", flat=True).get(pk=interrupt.pk),
                enough=lambda status: status != InterruptStatus.WAITING,
                seconds=seconds,
                agent_id=interrupt.agent_id,
                alone=False,
                check_key=lambda: recheck_key(request),
            )
            recheck_key(request)
            interrupt, headers = find_interrupt(caller, interrupt_id), polled.headers
        return Response(InterruptResponse.serialize(_detail_of(caller, interrupt)), headers=headers)

    @Operation(
        id="amend",
        summary="Amend an open interrupt",
        description="Members that are left out stay. The amendment raises `state_version`, so a decision on the earlier "
        "version is refused as stale.",
        who=AGENT_KEY,
        request=AmendInterruptRequest,
        responses={200: AmendedInterruptResponse},
        refusals=("not_found", "stale_version", "policy_refuses", "no_decider", "schema_unsupported", *CLOSED),
    )
    def patch(self, request: Request, interrupt_id: str) -> Response:
        agent = worker_of(request)
        changes, version = amendment(self.validated_body(request))
        interrupt = amend_interrupt.amend_open_interrupt(
            agent=agent, interrupt_id=interrupt_id, amendment=changes, state_version=version
        )
        return Response(AmendedInterruptResponse.serialize(interrupt))


def _detail_of(caller: Caller, interrupt: Interrupt) -> InterruptDetail:
    winner = None if interrupt.status == InterruptStatus.WAITING else find_winning_decision(interrupt)
    so_far = tally_votes(interrupt)
    continuation = resume_gateway.get_latest_continuation(interrupt)
    assigned = interrupt.assignees.filter(released_at=None).order_by("id")
    duplicates = (
        child_runs.interrupts_with_same_call(interrupt).filter(pk__in=interrupts_of(caller)).select_related("run")
    )
    person, now = caller.person, clock.now()
    return InterruptDetail(
        interrupt=interrupt,
        facts=interrupt.facts.order_by("id"),
        assignees=list(assigned.values_list("person__username", flat=True)),
        so_far=so_far,
        parents=child_runs.list_ancestors(interrupt.run)[::-1],
        duplicates=duplicates[:20],
        now=now,
        resume=resume_gateway.get_resume_status(interrupt.run, interrupt, continuation),
        continuation=continuation,
        person=None if person is None else view_of_person(person, interrupt, winner=winner, so_far=so_far, now=now),
    )


class DecisionsView(ApiView):
    """The decisions on an interrupt."""

    @Operation(
        id="decide",
        summary="Decide an interrupt",
        description="The resume gateway checks that the person may decide, that the deadline has not passed, and that "
        "version and answer are valid. A repeated decision returns its first receipt.",
        who=PERSON,
        request=DecisionRequest,
        responses={201: ReceiptResponse, 200: ReceiptResponse},
        refusals=("not_found", *DECIDING),
        idempotency_key=True,
        example=examples.DECISION,
        example_response=examples.RECEIPT,
    )
    def post(self, request: Request, interrupt_id: str) -> Response:
        person, key = person_of(request), request_key(request)
        sent = self.validated_body(request)
        receipt = resume_gateway.submit_decision(
            responder=person,
            interrupt_id=interrupt_id,
            answer=answer(sent),
            seen=seen(sent),
            door="api",
            request_key=key,
        )
        return Response(ReceiptResponse.serialize(receipt), status=200 if receipt.replayed else 201)


class WithdrawView(ApiView):
    """The withdrawal of an interrupt by its agent."""

    @Operation(
        id="withdraw",
        summary="Withdraw an interrupt",
        description="If no other interrupt of the run is open, the run continues with the cause `withdrawn`.",
        who=AGENT_KEY,
        request=OptionalReasonRequest,
        responses={200: WithdrawnInterruptResponse},
        refusals=("not_found", "policy_refuses", *CLOSED),
    )
    def post(self, request: Request, interrupt_id: str) -> Response:
        agent = worker_of(request)
        reason = self.validated_body(request)["reason"] or ""
        interrupt, continuation = amend_interrupt.withdraw_open_interrupt(
            agent=agent, interrupt_id=interrupt_id, reason=reason
        )
        withdrawn = WithdrawnInterrupt(interrupt=interrupt, continuation=continuation)
        return Response(WithdrawnInterruptResponse.serialize(withdrawn))
