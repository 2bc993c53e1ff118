"""Runs: started, asked and read; their checkpoints and interrupts; the lease of a worker, and the end of a run."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from ledger import clock, effect_queries
from ledger.digests import digest
from ledger.errors import NotFound
from ledger.exact_json import ABSENT
from reviewqueue import permissions
from reviewqueue.api.authentication import caller_of, worker_of
from reviewqueue.api.base_view import (
    AGENT,
    ASKING,
    BOTH,
    UNDER_LEASE,
    WITH_KEY,
    WITH_PARENT,
    ApiView,
    Operation,
    body_of,
    choice_parameter,
    key_parameter,
    lease_token,
    with_key,
)
from reviewqueue.api.openapi import examples
from reviewqueue.api.pagination import LIMIT, PAGE, ListPage, page, place_of
from reviewqueue.api.responses.continuations import (
    AnswerListResponse,
    ClaimedAnswer,
    DueCompensationsResponse,
    EffectListResponse,
    ListedAnswer,
    PermitListResponse,
)
from reviewqueue.api.responses.interrupts import (
    AskedInterrupt,
    AskResponse,
    InterruptListResponse,
    SuspendResponse,
    answer_of,
)
from reviewqueue.api.responses.runs import (
    CheckpointDetail,
    CheckpointResponse,
    CommittedCheckpointResponse,
    HeartbeatResponse,
    JudgedFactsResponse,
    LeaseHeartbeat,
    RunDetail,
    RunDetailResponse,
    RunListResponse,
    RunStatusResponse,
    StartedRunResponse,
    TimelineResponse,
    redact_event,
)
from reviewqueue.api.scoped_querysets import find_run, interrupts_of_run, runs_of, scope_of
from reviewqueue.api.serializers.fields import validated
from reviewqueue.api.serializers.interrupt_serializers import asked_facts, asked_wait
from reviewqueue.api.serializers.run_serializers import (
    AskRequest,
    CommitCheckpointRequest,
    CompleteRunRequest,
    FailRunRequest,
    HeartbeatRequest,
    ReleaseLeaseRequest,
    ReportFactsRequest,
    StartRunRequest,
    SuspendRequest,
    person_named,
    snapshot,
)
from reviewqueue.queries.visible_ranges import list_run_keys
from runs import decisions
from runs.checkpoint_files import find_uploaded_file
from runs.checkpoints import get_last_checkpoint
from runs.compensation import read_next_compensations
from runs.continuations import find_open_continuation
from runs.errors import SnapshotErased
from runs.interrupt_requests import RequestedInterrupt
from runs.models import Agent, Decision, Progress, Run
from runs.states import DecisionStatus, RunStatus
from runs.unclaimed_continuations import find_unclaimed
from runs.use_cases import (
    commit_checkpoint,
    complete_run,
    extend_lease,
    reconcile_facts,
    release_lease,
    start_run,
    suspend,
)

STATUS = choice_parameter("status", "Status of the runs.", RunStatus.values)
KEY = key_parameter("key", "Your key of a run.")


class AskView(ApiView):
    """A run and its only interrupt, without a lease."""

    @Operation(
        id="ask",
        summary="Ask people with one call",
        description="Starts a run with one interrupt and no lease. Poll the interrupt, then claim its `continuation`.",
        who=AGENT,
        request=AskRequest,
        responses={201: AskResponse, 200: AskResponse},
        refusals=("agent_halted", *WITH_PARENT, *ASKING),
        idempotency_key=True,
        example=examples.ASK,
        example_response=examples.ASKED,
    )
    def post(self, request: Request) -> Response:
        agent, body = worker_of(request), with_key(request, body_of(request))
        asked, created = create_ask(agent, body)
        return Response(AskResponse.serialize(asked), status=201 if created else 200)


def create_ask(agent: Agent, body: Any) -> tuple[AskedInterrupt, bool]:
    """Validate an ask, whose body has its key, and create it. Return whether it is new."""
    started, interrupt = start_run.create_ask(
        agent=agent, ask=requested_ask(body), check_assignees=permissions.check_assignees
    )
    return AskedInterrupt(interrupt=interrupt, run=started.run), started.created


def requested_ask(body: Any) -> start_run.NewAsk:
    """Validate the body of an ask, which has its key."""
    asked = validated(AskRequest, body)
    state = None if asked["state"] is ABSENT else asked["state"]
    wait = asked_wait(_interrupt_of(body), asked)
    return start_run.NewAsk(request=_run_request(body, asked, wait), wait=wait, state=state)


class RunsView(ApiView):
    """All runs that the caller may see."""

    @Operation(
        id="list_runs",
        summary="List runs, newest first",
        who=BOTH,
        responses={200: RunListResponse},
        query=(STATUS, KEY, *PAGE),
    )
    def get(self, request: Request) -> Response:
        query = self.validated_query(request)
        caller = caller_of(request)
        if "key" in query or query.get("status") == "":
            rows = runs_of(caller).filter(**{name: query[name] for name in ("status", "key") if name in query})
        else:
            before = place_of(Run, query["next"]) if "next" in query else None
            limit, status = LIMIT.read(query) + 1, query.get("status", "")
            rows = Run.objects.filter(pk__in=list_run_keys(scope_of(caller), status=status, before=before, limit=limit))
        rows = rows.select_related("agent", "initiator", "parent")
        return Response(RunListResponse.serialize(page(rows, query, sized="metadata")))

    @Operation(
        id="start_run",
        summary="Start a run",
        description="You get its first lease, unless `lease_seconds` is 0. A repeated call with the same key finds the "
        "same run.",
        who=AGENT,
        request=StartRunRequest,
        responses={201: StartedRunResponse, 200: StartedRunResponse},
        refusals=("agent_halted", *WITH_PARENT, *WITH_KEY),
        idempotency_key=True,
        example=examples.RUN,
        example_response=examples.STARTED,
    )
    def post(self, request: Request) -> Response:
        agent, body = worker_of(request), with_key(request, body_of(request))
        asked = validated(StartRunRequest, body)
        wanted = _run_request(body, asked)
        started = start_run.start_run(agent=agent, request=wanted, lease_seconds=asked["lease_seconds"])
        return Response(StartedRunResponse.serialize(started), status=201 if started.created else 200)


def _interrupt_of(body: dict[str, Any]) -> dict[str, Any]:
    """Return the members of an ask that belong to its interrupt, so that its digest is the one that a suspend gives."""
    return {name: value for name, value in body.items() if name not in {"state", "initiator", "parent", "code_version"}}


def _run_request(body: Any, asked: dict[str, Any], wait: RequestedInterrupt | None = None) -> start_run.NewRun:
    return start_run.NewRun(
        key=str(asked["key"]),
        body_digest=digest(body),
        title=asked["title"],
        initiator=person_named(asked["initiator"], at="/initiator"),
        parent=asked["parent"] or "",
        code_version=asked["code_version"] or "",
        metadata=asked["metadata"] or {},
        **({} if wait else {"max_step_seconds": asked["max_step_seconds"]}),
    )


class RunView(ApiView):
    """One run."""

    @Operation(
        id="read_run",
        summary="Get a run, its status and what it waits for",
        who=BOTH,
        responses={200: RunDetailResponse},
        refusals=("not_found",),
    )
    def get(self, request: Request, run_id: str) -> Response:
        self.validated_query(request)
        run = find_run(caller_of(request), run_id)
        detail = RunDetail(
            run=run,
            continuation=find_open_continuation(run),
            unclaimed=find_unclaimed([run], now=clock.now()).get(run.pk) if run.ready_since is not None else None,
            holds=run.holds.filter(lifted_at=None).select_related("owner").order_by("id"),
            progress=Progress.objects.filter(run=run).first(),
            outcome=run.outcomes.filter(epoch=run.epoch).first(),
            file=find_uploaded_file(run, number=run.checkpoint_number),
        )
        return Response(RunDetailResponse.serialize(detail))


class TimelineView(ApiView):
    """The timeline of a run."""

    @Operation(
        id="list_timeline",
        summary="List the events of a run, oldest first",
        who=BOTH,
        responses={200: TimelineResponse},
        refusals=("not_found",),
        query=PAGE,
    )
    def get(self, request: Request, run_id: str) -> Response:
        query = self.validated_query(request)
        caller = caller_of(request)
        found = page(find_run(caller, run_id).events.all(), query, by="seq")
        if caller.person is not None:
            return Response(TimelineResponse.serialize(found))
        redacted = ListPage(rows=[redact_event(event) for event in found.rows], next=found.next)
        return Response(TimelineResponse.serialize(redacted))


class RunEffectsView(ApiView):
    """The effect ledger of a run."""

    @Operation(
        id="list_effects",
        summary="List the effects of a run, oldest first",
        description="A page ends early, with a `next`, before its receipts exceed a million characters.",
        who=BOTH,
        responses={200: EffectListResponse},
        refusals=("not_found",),
        query=PAGE,
    )
    def get(self, request: Request, run_id: str) -> Response:
        query = self.validated_query(request)
        rows = effect_queries.effects_for_list(find_run(caller_of(request), run_id).public_id)
        return Response(EffectListResponse.serialize(page(rows, query, by="id", sized="receipt")))


def _run_of_worker(request: Request, run_id: str) -> Run:
    worker_of(request)
    return find_run(caller_of(request), run_id)


class RunAnswersView(ApiView):
    """The answers of a run."""

    @Operation(
        id="list_answers",
        summary="List the answers that a worker of the run gets, oldest first",
        description="A claim lists some of them. A page ends early, with a `next`, before its contents exceed a million "
        "characters.",
        who=AGENT,
        responses={200: AnswerListResponse},
        refusals=("not_found",),
        query=PAGE,
    )
    def get(self, request: Request, run_id: str) -> Response:
        query = self.validated_query(request)
        run = _run_of_worker(request, run_id)
        continuation = find_open_continuation(run)
        last = get_last_checkpoint(run).pk if continuation is None else continuation.checkpoint_id
        found = page(decisions.answers_for_list(run, last), query, by="id", sized=decisions.ANSWER_CHARACTERS)
        rows = [_listed_answer(decision, last) for decision in found.rows]
        return Response(AnswerListResponse.serialize(ListPage(rows=rows, next=found.next)))


def _listed_answer(decision: Decision, checkpoint_id: int) -> ListedAnswer:
    overtaken = decision.status == DecisionStatus.OVERTAKEN
    new = not overtaken and decision.interrupt.checkpoint_id == checkpoint_id
    claimed = ClaimedAnswer(answer=answer_of(decision), new=new)
    return ListedAnswer(key=decision.interrupt.key, claimed=claimed, overtaken=overtaken)


class RunPermitsView(ApiView):
    """The permits of a run."""

    @Operation(
        id="list_permits",
        summary="List the valid permits of a run, oldest first",
        who=AGENT,
        responses={200: PermitListResponse},
        refusals=("not_found",),
        query=PAGE,
    )
    def get(self, request: Request, run_id: str) -> Response:
        query = self.validated_query(request)
        run = _run_of_worker(request, run_id)
        return Response(
            PermitListResponse.serialize(page(decisions.permits_for_list(run, now=clock.now()), query, by="id"))
        )


class RunCompensationsView(ApiView):
    """The effects that a run must compensate."""

    @Operation(
        id="list_compensations",
        summary="List the effects that a worker compensates next, newest first",
        description="Compensated effects leave the list, and the next ones follow.",
        who=AGENT,
        responses={200: DueCompensationsResponse},
        refusals=("not_found",),
    )
    def get(self, request: Request, run_id: str) -> Response:
        self.validated_query(request)
        due = read_next_compensations(_run_of_worker(request, run_id))
        return Response(DueCompensationsResponse.serialize(due))


class CheckpointsView(ApiView):
    """The checkpoints of a run."""

    @Operation(
        id="commit_checkpoint",
        summary="Commit a checkpoint",
        description="A repeated call is recognized by `after`. If `control` is `pause` or `cancel`, the run has stopped "
        "here and the lease has ended.",
        who=AGENT,
        request=CommitCheckpointRequest,
        responses={201: CommittedCheckpointResponse, 200: CommittedCheckpointResponse},
        refusals=(*UNDER_LEASE, "stale_version"),
        lease=True,
        example=examples.CHECKPOINT,
        example_response=examples.REACHED,
    )
    def post(self, request: Request, run_id: str) -> Response:
        agent, token, body = worker_of(request), lease_token(request), body_of(request)
        sent = validated(CommitCheckpointRequest, body)
        reached = commit_checkpoint.commit_checkpoint(
            agent=agent,
            run_id=run_id,
            token=token,
            after=sent["after"],
            snapshot=snapshot(body, sent),
            facts=asked_facts(sent["facts"]),
        )
        return Response(CommittedCheckpointResponse.serialize(reached), status=201 if reached.created else 200)


class CheckpointView(ApiView):
    """One checkpoint."""

    @Operation(
        id="read_checkpoint",
        summary="Get a checkpoint with its state and facts",
        description="The state of an ended run is kept for a limited time; then the call is refused with "
        "`snapshot_erased`, which has its digest.",
        who=BOTH,
        responses={200: CheckpointResponse},
        refusals=("not_found", "snapshot_erased"),
    )
    def get(self, request: Request, run_id: str, number: int) -> Response:
        self.validated_query(request)
        run = find_run(caller_of(request), run_id)
        checkpoint = run.checkpoints.select_related("file").filter(number=number).first()
        if checkpoint is None:
            raise NotFound
        if checkpoint.erased_at is not None:
            raise SnapshotErased(digest=checkpoint.digest, erased_at=checkpoint.erased_at)
        facts = checkpoint.facts.filter(interrupt=None).order_by("id")
        return Response(CheckpointResponse.serialize(CheckpointDetail(checkpoint=checkpoint, facts=facts)))


class RunInterruptsView(ApiView):
    """The interrupts of a run."""

    @Operation(
        id="list_interrupts_of_run",
        summary="List the interrupts of a run, newest first",
        who=BOTH,
        responses={200: InterruptListResponse},
        refusals=("not_found",),
        query=PAGE,
    )
    def get(self, request: Request, run_id: str) -> Response:
        query = self.validated_query(request)
        caller = caller_of(request)
        rows = interrupts_of_run(caller, find_run(caller, run_id)).select_related("queue", "run")
        return Response(InterruptListResponse.serialize(page(rows, query)))

    @Operation(
        id="suspend",
        summary="Suspend a run until people answer",
        description="Commits a checkpoint, creates interrupts and ends the lease in one transaction. If a worker with "
        "a live lease repeats the call with the same keys after the answers, it keeps the lease and gets them in "
        "`answers`.",
        who=AGENT,
        request=SuspendRequest,
        responses={201: SuspendResponse, 200: SuspendResponse},
        refusals=(*UNDER_LEASE, "run_cancelled", "stale_version", "in_doubt", *ASKING),
        lease=True,
        example=examples.SUSPEND,
        example_response=examples.SUSPENDED,
    )
    def post(self, request: Request, run_id: str) -> Response:
        agent, token, body = worker_of(request), lease_token(request), body_of(request)
        asked = validated(SuspendRequest, body)
        suspended = suspend.suspend(
            agent=agent,
            run_id=run_id,
            token=token,
            suspension=suspend.Suspension(
                after=asked["after"],
                snapshot=snapshot(body, asked["checkpoint"]),
                facts=asked_facts(asked["checkpoint"]["facts"]),
                interrupts=[asked_wait(*pair) for pair in zip(body["interrupts"], asked["interrupts"], strict=True)],
                pending=[suspend.PendingEffect(**it) for it in asked["pending"] or []],
                resume_when=asked["resume_when"],
            ),
            check_assignees=permissions.check_assignees,
        )
        return Response(SuspendResponse.serialize(suspended), status=201 if suspended.created else 200)


class ReportFactsView(ApiView):
    """The facts that a worker checks."""

    @Operation(
        id="report_facts",
        summary="Report the facts that the worker checks",
        description="After a claim, before the first effect.",
        who=AGENT,
        request=ReportFactsRequest,
        responses={200: JudgedFactsResponse},
        refusals=UNDER_LEASE,
        lease=True,
    )
    def post(self, request: Request, run_id: str) -> Response:
        agent, token = worker_of(request), lease_token(request)
        sent = self.validated_body(request)
        values = {fact["name"]: fact["value"] for fact in sent["facts"]}
        judged = reconcile_facts.report_facts(agent=agent, run_id=run_id, token=token, values=values)
        return Response(JudgedFactsResponse.serialize(judged))


class LeaseView(ApiView):
    """The lease of a run."""

    @Operation(
        id="extend_lease",
        summary="Send a heartbeat, which extends the lease",
        who=AGENT,
        request=HeartbeatRequest,
        responses={200: HeartbeatResponse},
        refusals=UNDER_LEASE,
        lease=True,
    )
    def post(self, request: Request, run_id: str) -> Response:
        agent, token = worker_of(request), lease_token(request)
        said = self.validated_body(request)["progress"]
        progress = None
        if said is not None:
            progress = extend_lease.ReportedProgress(**said | {"spent": said["spent"] or ""})
        lease, told = extend_lease.record_heartbeat(agent=agent, run_id=run_id, token=token, progress=progress)
        return Response(HeartbeatResponse.serialize(LeaseHeartbeat(expires_at=lease.expires_at, told=told)))


class ReleaseLeaseView(ApiView):
    """The end of a lease, by its holder."""

    @Operation(
        id="hand_back",
        summary="Release the lease of a run",
        description="`retry`: another worker can continue at once. `incompatible` or `unknown_checkpoint`: this code "
        "cannot read the checkpoint; the answers stay, and the run is not offered to this version again. Other versions "
        "can claim it at once; after three versions the run gets a hold (`stranded`) until one that can read the "
        "checkpoint claims it.",
        who=AGENT,
        request=ReleaseLeaseRequest,
        responses={200: RunStatusResponse},
        refusals=UNDER_LEASE,
        lease=True,
    )
    def post(self, request: Request, run_id: str) -> Response:
        agent, token = worker_of(request), lease_token(request)
        sent = self.validated_body(request)
        detail = sent["detail"] or ""
        run = release_lease.hand_back_run(agent=agent, run_id=run_id, token=token, reason=sent["reason"], detail=detail)
        return Response(RunStatusResponse.serialize(run))


class CompleteRunView(ApiView):
    """The completion of a run."""

    @Operation(
        id="complete_run",
        summary="Complete a run",
        who=AGENT,
        request=CompleteRunRequest,
        responses={200: RunStatusResponse},
        refusals=(*UNDER_LEASE, "run_cancelled", "open_interrupts", "in_doubt"),
        lease=True,
    )
    def post(self, request: Request, run_id: str) -> Response:
        agent, token = worker_of(request), lease_token(request)
        result = self.validated_body(request)["result"]
        result = None if result is ABSENT else result
        run = complete_run.complete_run(agent=agent, run_id=run_id, token=token, result=result)
        return Response(RunStatusResponse.serialize(run))


class FailRunView(ApiView):
    """The failure of a run, reported by its worker."""

    @Operation(
        id="fail_run",
        summary="Fail a run",
        who=AGENT,
        request=FailRunRequest,
        responses={200: RunStatusResponse},
        refusals=(*UNDER_LEASE, "run_cancelled", "open_interrupts"),
        lease=True,
    )
    def post(self, request: Request, run_id: str) -> Response:
        agent, token = worker_of(request), lease_token(request)
        error = self.validated_body(request)["error"]
        run = complete_run.fail_run(agent=agent, run_id=run_id, token=token, error=error)
        return Response(RunStatusResponse.serialize(run))
