"""Interrupts: listed, polled, answered, claimed. Agents see their own without the answer; people see and decide."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from ledger import clock
from ledger.errors import PayloadInvalid, Problem
from reviewqueue import gateway
from reviewqueue.api import responses
from reviewqueue.api.authentication import caller_of, check_again, person_of, worker_of
from reviewqueue.api.long_poll import look_until
from reviewqueue.api.pagination import page, query_of, whole
from reviewqueue.api.scoped_querysets import find_interrupt, interrupts_of
from reviewqueue.api.serializers import reviewer_action_serializers, run_serializers
from reviewqueue.api.serializers.fields import read
from reviewqueue.api.views.base import ApiView, body_of, request_key
from runs import child_runs
from runs.decisions import winner_of
from runs.models import Interrupt
from runs.states import InterruptStatus, Risk
from runs.use_cases import amend_interrupt
from runs.votes import tally

#: What a list may be narrowed by, and the column that each names.
FILTERS = {"queue": "queue__slug", "status": "status", "reason": "reason", "risk": "risk", "agent": "agent__slug"}
WORDS = {"status": InterruptStatus.values, "risk": Risk.values}


class Interrupts(ApiView):
    """Every wait that the caller may see."""

    def get(self, request: Request) -> Response:
        """List them, newest first."""
        query = query_of(request, *FILTERS, "limit", "next")
        for name, words in WORDS.items():
            if query.get(name, words[0]) not in words:
                message = f"?{name} has to be one of: {', '.join(words)}"
                raise PayloadInvalid(f"The query's {message[1:]}.", errors=[Problem("", message)])
        rows = interrupts_of(caller_of(request)).select_related("queue", "run")
        rows = rows.filter(**{column: query[name] for name, column in FILTERS.items() if name in query})
        shown = rows.defer("message", "proposal", "evidence")
        return Response(page(shown, query, name="interrupts", row=responses.interrupt_row))


class OneInterrupt(ApiView):
    """One wait."""

    def get(self, request: Request, interrupt_id: str) -> Response:
        """Show it, at once or as soon as it leaves `waiting`."""
        caller, query = caller_of(request), query_of(request, "wait")
        seconds = whole(query, "wait", default=0, least=0, most=run_serializers.LONGEST_POLL)
        interrupt = find_interrupt(caller, interrupt_id)
        headers = {}
        if seconds and interrupt.status == InterruptStatus.WAITING:
            polled = look_until(
                lambda: Interrupt.objects.values_list("status", flat=True).get(pk=interrupt.pk),
                enough=lambda status: status != InterruptStatus.WAITING,
                seconds=seconds,
                agent_id=interrupt.agent_id,
                alone=False,
            )
            check_again(request)
            interrupt, headers = find_interrupt(caller, interrupt_id), polled.headers
        winner = None if interrupt.status == InterruptStatus.WAITING else winner_of(interrupt)
        so_far = tally(interrupt)
        continuation = gateway.latest_continuation(interrupt)
        resume = gateway.resume_word(interrupt.run, interrupt, continuation)
        shown = responses.interrupt_whole(
            interrupt,
            facts=interrupt.facts.order_by("id"),
            assignees=list(
                interrupt.assignees.filter(released_at=None).order_by("id").values_list("person__username", flat=True)
            ),
            so_far=so_far,
            parents=child_runs.ancestors(interrupt.run)[::-1],
            duplicates=child_runs.asked_elsewhere(interrupt)
            .filter(pk__in=interrupts_of(caller))
            .select_related("run")[:20],
            now=clock.now(),
        )
        if caller.person is None:
            shown = responses.seen_by_agent(shown, resume=resume, continuation=continuation)
        else:
            shown = responses.seen_by_person(
                shown, interrupt, caller.person, winner=winner, so_far=so_far, resume=resume
            )
        return Response(shown, headers=headers)

    def patch(self, request: Request, interrupt_id: str) -> Response:
        """Amend it while it waits: the version goes up, and an answer to what was shown before is stale."""
        agent, body = worker_of(request), body_of(request)
        amendment, version = reviewer_action_serializers.amendment(read(reviewer_action_serializers.AmendShape, body))
        interrupt = amend_interrupt.amend_wait(
            agent=agent, interrupt_id=interrupt_id, amendment=amendment, state_version=version
        )
        return Response(responses.interrupt_mark(interrupt) | {"content_digest": interrupt.content_digest})


class Decisions(ApiView):
    """The answers to a wait."""

    def post(self, request: Request, interrupt_id: str) -> Response:
        """Answer it, through the gateway."""
        person, key = person_of(request), request_key(request)
        sent = read(run_serializers.DecisionShape, body_of(request))
        receipt = gateway.submit_decision(
            responder=person,
            interrupt_id=interrupt_id,
            answer=reviewer_action_serializers.answer(sent),
            seen=reviewer_action_serializers.seen(sent),
            door="api",
            request_key=key,
        )
        return Response(responses.receipt(receipt), status=200 if receipt.replayed else 201)


class Withdraw(ApiView):
    """The end of a wait, by the agent that asked."""

    def post(self, request: Request, interrupt_id: str) -> Response:
        """Take the question back."""
        agent = worker_of(request)
        reason = read(reviewer_action_serializers.ReasonShape, body_of(request))["reason"] or ""
        interrupt, continuation = amend_interrupt.withdraw_wait(agent=agent, interrupt_id=interrupt_id, reason=reason)
        shown = {"continuation": None if continuation is None else continuation.public_id}
        return Response(responses.interrupt_mark(interrupt) | shown)
