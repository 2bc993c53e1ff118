"""Runs: started, asked, read; their boundaries; how a worker holds one, hands it back and ends it."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from ledger import clock, effect_queries
from ledger.digests import digest
from ledger.errors import NotFound
from ledger.exact_json import ABSENT
from reviewqueue import permissions
from reviewqueue.api import responses
from reviewqueue.api.authentication import caller_of, worker_of
from reviewqueue.api.pagination import page, query_of
from reviewqueue.api.scoped_querysets import find_run, interrupts_of, runs_of
from reviewqueue.api.serializers import interrupt_serializers, run_serializers
from reviewqueue.api.serializers.fields import read
from reviewqueue.api.views.base import ApiView, body_of, lease_token, with_key
from runs.checkpoint_files import find_sent
from runs.continuations import open_continuation
from runs.errors import SnapshotErased
from runs.interrupt_requests import AskedWait
from runs.models import Progress
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


class Asks(ApiView):
    """The short way: a run with one interrupt and no lease."""

    def post(self, request: Request) -> Response:
        """Ask."""
        agent, body = worker_of(request), with_key(request, body_of(request))
        asked = read(run_serializers.AskShape, body)
        state = None if asked["state"] is ABSENT else asked["state"]
        wait = interrupt_serializers.asked_wait(_only_the_wait(body), asked)
        started, interrupt = start_run.ask(
            agent=agent,
            request=_run_request(body, asked, wait),
            wait=wait,
            state=state,
            check_assignees=permissions.check_assignees,
        )
        shown = {"interrupt": responses.interrupt_mark(interrupt), "run": responses.run_standing(started.run)}
        return Response(shown | {"url": responses.url_of(interrupt)}, status=201 if started.created else 200)


class Runs(ApiView):
    """Every run that the caller may see; a new one."""

    def get(self, request: Request) -> Response:
        """List them, newest first."""
        query = query_of(request, "status", "key", "limit", "next")
        rows = runs_of(caller_of(request)).select_related("agent", "initiator", "parent")
        rows = rows.filter(**{name: query[name] for name in ("status", "key") if name in query})
        return Response(page(rows, query, name="runs", row=responses.run_row, sized="metadata"))

    def post(self, request: Request) -> Response:
        """Start one; the caller holds its first lease, unless it wants none."""
        agent, body = worker_of(request), with_key(request, body_of(request))
        asked = read(run_serializers.RunShape, body)
        wanted = _run_request(body, asked)
        started = start_run.start_run(agent=agent, request=wanted, lease_seconds=asked["lease_seconds"])
        return Response(responses.started(started.run, started.lease), status=201 if started.created else 200)


def _only_the_wait(body: dict[str, object]) -> dict[str, object]:
    """Return the members of an ask that are its wait's, so that its digest is the one the wait would have elsewhere."""
    return {name: value for name, value in body.items() if name not in {"state", "initiator", "parent", "code_version"}}


def _run_request(body: object, asked: dict[str, object], wait: AskedWait | None = None) -> start_run.RunRequest:
    initiator = run_serializers.person_named(asked["initiator"], at="/initiator")  # type: ignore[arg-type]
    return start_run.RunRequest(
        key=str(asked["key"]),
        body_digest=digest(body),
        title=str(asked["title"]),
        initiator=initiator,
        parent=str(asked["parent"] or ""),
        code_version=str(asked["code_version"] or ""),
        metadata=asked["metadata"] or {},  # type: ignore[arg-type]
        **({} if wait else {"max_step_seconds": asked["max_step_seconds"]}),  # type: ignore[arg-type]
    )


class OneRun(ApiView):
    """One run."""

    def get(self, request: Request, run_id: str) -> Response:
        """Show where it stands and why."""
        query_of(request)
        run = find_run(caller_of(request), run_id)
        shown = responses.run_whole(
            run,
            continuation=open_continuation(run),
            unclaimed=find_unclaimed([run], now=clock.now()).get(run.pk) if run.ready_since is not None else None,
            holds=run.holds.filter(lifted_at=None).select_related("owner").order_by("id"),
            progress=Progress.objects.filter(run=run).first(),
            outcome=run.outcomes.filter(epoch=run.epoch).first(),
            file=find_sent(run, number=run.checkpoint_number),
        )
        return Response(shown)


class Timeline(ApiView):
    """What happened to a run, in order."""

    def get(self, request: Request, run_id: str) -> Response:
        """List its events."""
        query = query_of(request, "limit", "next")
        caller = caller_of(request)
        row = responses.event_row if caller.person else responses.event_row_for_agent
        return Response(page(find_run(caller, run_id).events.all(), query, name="events", row=row, by="seq"))


class RunEffects(ApiView):
    """The effect ledger of a run."""

    def get(self, request: Request, run_id: str) -> Response:
        """List the effects, in the order in which they were begun."""
        query = query_of(request, "limit", "next")
        rows = effect_queries.effects_of(find_run(caller_of(request), run_id).public_id)
        return Response(page(rows, query, name="effects", row=responses.effect_row, by="id", sized="receipt"))


class Checkpoints(ApiView):
    """The boundaries of a run."""

    def post(self, request: Request, run_id: str) -> Response:
        """Commit the next one."""
        agent, token, body = worker_of(request), lease_token(request), body_of(request)
        sent = read(run_serializers.CheckpointShape, body)
        reached = commit_checkpoint.commit_checkpoint(
            agent=agent,
            run_id=run_id,
            token=token,
            after=sent["after"],
            snapshot=run_serializers.snapshot(body, sent),
            facts=interrupt_serializers.asked_facts(sent["facts"]),
        )
        shown = responses.checkpoint_mark(reached.checkpoint) | responses.told(reached.told)
        return Response(shown, status=201 if reached.created else 200)


class OneCheckpoint(ApiView):
    """One boundary."""

    def get(self, request: Request, run_id: str, number: int) -> Response:
        """Show it with its state and facts."""
        query_of(request)
        run = find_run(caller_of(request), run_id)
        checkpoint = run.checkpoints.select_related("file").filter(number=number).first()
        if checkpoint is None:
            raise NotFound
        if checkpoint.erased_at is not None:
            raise SnapshotErased(digest=checkpoint.digest, erased_at=checkpoint.erased_at)
        facts = checkpoint.facts.filter(interrupt=None).order_by("id")
        shown = responses.checkpoint_whole(checkpoint) | {"created_at": responses.moment(checkpoint.created_at)}
        return Response(shown | {"facts": [responses.fact_shown(fact) for fact in facts]})


class RunInterrupts(ApiView):
    """The waits of a run."""

    def get(self, request: Request, run_id: str) -> Response:
        """List those that the caller may see, newest first."""
        query = query_of(request, "limit", "next")
        caller = caller_of(request)
        waits = interrupts_of(caller).filter(run=find_run(caller, run_id)).select_related("queue", "run")
        return Response(page(waits, query, name="interrupts", row=responses.interrupt_row))

    def post(self, request: Request, run_id: str) -> Response:
        """Suspend: a checkpoint, a wait, and the end of the lease, in one."""
        agent, token, body = worker_of(request), lease_token(request), body_of(request)
        asked = read(run_serializers.SuspendShape, body)
        outcome = suspend.suspend(
            agent=agent,
            run_id=run_id,
            token=token,
            suspension=suspend.Suspension(
                after=asked["after"],
                snapshot=run_serializers.snapshot(body, asked["checkpoint"]),
                facts=interrupt_serializers.asked_facts(asked["checkpoint"]["facts"]),
                interrupts=[
                    interrupt_serializers.asked_wait(*pair)
                    for pair in zip(body["interrupts"], asked["interrupts"], strict=True)
                ],
                pending=[suspend.PendingEffect(**it) for it in asked["pending"] or []],
                resume_when=asked["resume_when"],
            ),
            check_assignees=permissions.check_assignees,
        )
        return Response(responses.suspended(outcome), status=201 if outcome.created else 200)


class ReportedFacts(ApiView):
    """The facts that a worker checks itself."""

    def post(self, request: Request, run_id: str) -> Response:
        """Report them, before the first effect."""
        agent, token = worker_of(request), lease_token(request)
        sent = read(run_serializers.ReportedFacts, body_of(request))
        values = {fact["name"]: fact["value"] for fact in sent["facts"]}
        judged = reconcile_facts.report_facts(agent=agent, run_id=run_id, token=token, values=values)
        return Response(
            {"control": judged.control, "changed": [responses.changed_fact(fact) for fact in judged.changed]}
        )


class Lease(ApiView):
    """The lease of a run."""

    def post(self, request: Request, run_id: str) -> Response:
        """Extend it: the worker is still there."""
        agent, token = worker_of(request), lease_token(request)
        said = read(run_serializers.BeatShape, body_of(request))["progress"]
        progress = None
        if said is not None:
            progress = extend_lease.SaidProgress(**said | {"spent": said["spent"] or ""})
        lease, told = extend_lease.beat(agent=agent, run_id=run_id, token=token, progress=progress)
        return Response({"expires_at": responses.moment(lease.expires_at)} | responses.told(told))


class LeaseRelease(ApiView):
    """The end of a lease, by its holder."""

    def post(self, request: Request, run_id: str) -> Response:
        """Hand the run back."""
        agent, token = worker_of(request), lease_token(request)
        sent = read(run_serializers.HandBackShape, body_of(request))
        detail = sent["detail"] or ""
        run = release_lease.hand_back(agent=agent, run_id=run_id, token=token, reason=sent["reason"], detail=detail)
        return Response(responses.run_standing(run))


class Complete(ApiView):
    """The good end of a run."""

    def post(self, request: Request, run_id: str) -> Response:
        """End it as done."""
        agent, token = worker_of(request), lease_token(request)
        result = read(run_serializers.CompleteShape, body_of(request))["result"]
        result = None if result is ABSENT else result
        return Response(
            responses.run_standing(complete_run.complete_run(agent=agent, run_id=run_id, token=token, result=result))
        )


class Fail(ApiView):
    """The bad end of a run, by its own worker."""

    def post(self, request: Request, run_id: str) -> Response:
        """End it as failed."""
        agent, token = worker_of(request), lease_token(request)
        error = read(run_serializers.FailShape, body_of(request))["error"]
        return Response(
            responses.run_standing(complete_run.fail_run(agent=agent, run_id=run_id, token=token, error=error))
        )
