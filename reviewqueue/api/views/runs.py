"""Runs: started, asked, read; their boundaries; how a worker holds one, hands it back and ends it."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from ledger import clock, consulting
from ledger.canonical import digest
from ledger.errors import NotFound
from ledger.exact import ABSENT
from reviewqueue import authority
from reviewqueue.api import replies, serializers, wait_shapes
from reviewqueue.api.authentication import caller_of, worker_of
from reviewqueue.api.fields import read
from reviewqueue.api.pagination import page, query_of
from reviewqueue.api.rows import find_run, interrupts_of, runs_of
from reviewqueue.api.views.base import ApiView, body_of, lease_token, with_key
from runs import checking, lifecycle, returning, safe_points, suspending
from runs.continuations import open_continuation
from runs.errors import SnapshotErased
from runs.files import find_sent
from runs.models import Progress
from runs.questions import AskedWait
from runs.suspending import PendingEffect
from runs.unclaimed import find_unclaimed


class Asks(ApiView):
    """The short way: a run with one interrupt and no lease."""

    def post(self, request: Request) -> Response:
        """Ask."""
        agent, body = worker_of(request), with_key(request, body_of(request))
        asked = read(serializers.AskShape, body)
        state = None if asked["state"] is ABSENT else asked["state"]
        wait = wait_shapes.asked_wait(_only_the_wait(body), asked)
        started, interrupt = lifecycle.ask(
            agent=agent,
            request=_run_request(body, asked, wait),
            wait=wait,
            state=state,
            check_assignees=authority.check_assignees,
        )
        shown = {"interrupt": replies.interrupt_mark(interrupt), "run": replies.run_standing(started.run)}
        return Response(shown | {"url": replies.url_of(interrupt)}, status=201 if started.created else 200)


class Runs(ApiView):
    """Every run that the caller may see; a new one."""

    def get(self, request: Request) -> Response:
        """List them, newest first."""
        query = query_of(request, "status", "key", "limit", "next")
        rows = runs_of(caller_of(request)).select_related("agent", "initiator", "parent")
        rows = rows.filter(**{name: query[name] for name in ("status", "key") if name in query})
        return Response(page(rows, query, name="runs", row=replies.run_row, sized="metadata"))

    def post(self, request: Request) -> Response:
        """Start one; the caller holds its first lease, unless it wants none."""
        agent, body = worker_of(request), with_key(request, body_of(request))
        asked = read(serializers.RunShape, body)
        wanted = _run_request(body, asked)
        started = lifecycle.start_run(agent=agent, request=wanted, lease_seconds=asked["lease_seconds"])
        return Response(replies.started(started.run, started.lease), status=201 if started.created else 200)


def _only_the_wait(body: dict[str, object]) -> dict[str, object]:
    """Return the members of an ask that are its wait's, so that its digest is the one the wait would have elsewhere."""
    return {name: value for name, value in body.items() if name not in {"state", "initiator", "parent", "code_version"}}


def _run_request(body: object, asked: dict[str, object], wait: AskedWait | None = None) -> lifecycle.RunRequest:
    initiator = serializers.person_named(asked["initiator"], at="/initiator")  # type: ignore[arg-type]
    return lifecycle.RunRequest(
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
        shown = replies.run_whole(
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
        row = replies.event_row if caller.person else replies.event_row_for_agent
        return Response(page(find_run(caller, run_id).events.all(), query, name="events", row=row, by="seq"))


class RunEffects(ApiView):
    """The effect ledger of a run."""

    def get(self, request: Request, run_id: str) -> Response:
        """List the effects, in the order in which they were begun."""
        query = query_of(request, "limit", "next")
        rows = consulting.effects_of(find_run(caller_of(request), run_id).public_id)
        return Response(page(rows, query, name="effects", row=replies.effect_row, by="id", sized="receipt"))


class Checkpoints(ApiView):
    """The boundaries of a run."""

    def post(self, request: Request, run_id: str) -> Response:
        """Commit the next one."""
        agent, token, body = worker_of(request), lease_token(request), body_of(request)
        sent = read(serializers.CheckpointShape, body)
        reached = safe_points.commit_checkpoint(
            agent=agent,
            run_id=run_id,
            token=token,
            after=sent["after"],
            snapshot=serializers.snapshot(body, sent),
            facts=wait_shapes.asked_facts(sent["facts"]),
        )
        shown = replies.checkpoint_mark(reached.checkpoint) | replies.told(reached.told)
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
        shown = replies.checkpoint_whole(checkpoint) | {"created_at": replies.moment(checkpoint.created_at)}
        return Response(shown | {"facts": [replies.fact_shown(fact) for fact in facts]})


class RunInterrupts(ApiView):
    """The waits of a run."""

    def get(self, request: Request, run_id: str) -> Response:
        """List those that the caller may see, newest first."""
        query = query_of(request, "limit", "next")
        caller = caller_of(request)
        waits = interrupts_of(caller).filter(run=find_run(caller, run_id)).select_related("queue", "run")
        return Response(page(waits, query, name="interrupts", row=replies.interrupt_row))

    def post(self, request: Request, run_id: str) -> Response:
        """Suspend: a checkpoint, a wait, and the end of the lease, in one."""
        agent, token, body = worker_of(request), lease_token(request), body_of(request)
        asked = read(serializers.SuspendShape, body)
        outcome = suspending.suspend(
            agent=agent,
            run_id=run_id,
            token=token,
            after=asked["after"],
            snapshot=serializers.snapshot(body, asked["checkpoint"]),
            facts=wait_shapes.asked_facts(asked["checkpoint"]["facts"]),
            waits=[wait_shapes.asked_wait(*pair) for pair in zip(body["interrupts"], asked["interrupts"], strict=True)],
            pending=[PendingEffect(**it) for it in asked["pending"] or []],
            resume_when=asked["resume_when"],
            check_assignees=authority.check_assignees,
        )
        return Response(replies.suspended(outcome), status=201 if outcome.created else 200)


class ReportedFacts(ApiView):
    """The facts that a worker checks itself."""

    def post(self, request: Request, run_id: str) -> Response:
        """Report them, before the first effect."""
        agent, token = worker_of(request), lease_token(request)
        sent = read(serializers.ReportedFacts, body_of(request))
        values = {fact["name"]: fact["value"] for fact in sent["facts"]}
        judged = checking.report_facts(agent=agent, run_id=run_id, token=token, values=values)
        return Response({"control": judged.control, "changed": [replies.changed_fact(fact) for fact in judged.changed]})


class Lease(ApiView):
    """The lease of a run."""

    def post(self, request: Request, run_id: str) -> Response:
        """Extend it: the worker is still there."""
        agent, token = worker_of(request), lease_token(request)
        said = read(serializers.BeatShape, body_of(request))["progress"]
        progress = None
        if said is not None:
            progress = safe_points.SaidProgress(**said | {"spent": said["spent"] or ""})
        lease, told = safe_points.beat(agent=agent, run_id=run_id, token=token, progress=progress)
        return Response({"expires_at": replies.moment(lease.expires_at)} | replies.told(told))


class LeaseRelease(ApiView):
    """The end of a lease, by its holder."""

    def post(self, request: Request, run_id: str) -> Response:
        """Hand the run back."""
        agent, token = worker_of(request), lease_token(request)
        sent = read(serializers.HandBackShape, body_of(request))
        detail = sent["detail"] or ""
        run = returning.hand_back(agent=agent, run_id=run_id, token=token, reason=sent["reason"], detail=detail)
        return Response(replies.run_standing(run))


class Complete(ApiView):
    """The good end of a run."""

    def post(self, request: Request, run_id: str) -> Response:
        """End it as done."""
        agent, token = worker_of(request), lease_token(request)
        result = read(serializers.CompleteShape, body_of(request))["result"]
        result = None if result is ABSENT else result
        return Response(
            replies.run_standing(lifecycle.complete_run(agent=agent, run_id=run_id, token=token, result=result))
        )


class Fail(ApiView):
    """The bad end of a run, by its own worker."""

    def post(self, request: Request, run_id: str) -> Response:
        """End it as failed."""
        agent, token = worker_of(request), lease_token(request)
        error = read(serializers.FailShape, body_of(request))["error"]
        return Response(replies.run_standing(lifecycle.fail_run(agent=agent, run_id=run_id, token=token, error=error)))
