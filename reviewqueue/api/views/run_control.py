"""Run control and the kill switch: pause, resume, cancel, restart, retag, halt and lift."""

from __future__ import annotations

from collections.abc import Callable

from rest_framework.request import Request
from rest_framework.response import Response

from ledger.actors import person_actor
from ledger.errors import NotFound
from reviewqueue import permissions
from reviewqueue.api.authentication import Caller, controller_of, person_of
from reviewqueue.api.base_view import CONTROLLER, PERSON, ApiView, Operation, body_of
from reviewqueue.api.responses.runs import HaltResponse, HaltState, RetaggedRunResponse, RunControlResponse
from reviewqueue.api.scoped_querysets import runs_of
from reviewqueue.api.serializers.fields import validated
from reviewqueue.api.serializers.reviewer_action_serializers import (
    OptionalReasonRequest,
    ReasonRequest,
    RestartRunRequest,
    RetagRunRequest,
)
from reviewqueue.operations import kill_switch
from runs.models import Run
from runs.use_cases import control_run

_TWICE = "A repeated call changes nothing."


def _control(request: Request, run_id: str, change: Callable[..., Run]) -> Response:
    """Change a run, for people who may control it and for the agent itself."""
    caller = controller_of(request)
    reason = validated(OptionalReasonRequest, body_of(request))["reason"] or ""
    check = _own_run(caller) if caller.person is None else permissions.make_control_check(caller.person)
    run = change(run_id=run_id, actor=caller.name, reason=reason, check=check)
    return Response(RunControlResponse.serialize(run))


def _own_run(caller: Caller) -> Callable[[Run], None]:
    visible = runs_of(caller)

    def check(run: Run) -> None:
        if not visible.filter(pk=run.pk).exists():
            raise NotFound

    return check


class PauseRunView(ApiView):
    """The pause of a run."""

    @Operation(
        id="pause_run",
        summary="Pause a run at its next safe point",
        description=_TWICE,
        who=CONTROLLER,
        request=OptionalReasonRequest,
        responses={200: RunControlResponse},
        refusals=("not_found", "run_finished", "run_cancelled", "self_review"),
    )
    def post(self, request: Request, run_id: str) -> Response:
        return _control(request, run_id, control_run.pause_run)


class ResumeRunView(ApiView):
    """The end of a pause."""

    @Operation(
        id="resume_run",
        summary="Resume a paused run",
        description=_TWICE,
        who=CONTROLLER,
        request=OptionalReasonRequest,
        responses={200: RunControlResponse},
        refusals=("not_found", "run_finished", "run_cancelled", "self_review"),
    )
    def post(self, request: Request, run_id: str) -> Response:
        return _control(request, run_id, control_run.resume_run)


class CancelRunView(ApiView):
    """The cancellation of a run."""

    @Operation(
        id="cancel_run",
        summary="Cancel a run",
        description=_TWICE,
        who=CONTROLLER,
        request=OptionalReasonRequest,
        responses={200: RunControlResponse},
        refusals=("not_found", "run_finished", "self_review"),
    )
    def post(self, request: Request, run_id: str) -> Response:
        return _control(request, run_id, control_run.cancel_run)


class RestartRunView(ApiView):
    """The restart of an ended run."""

    @Operation(
        id="restart_run",
        summary="Restart an ended run with its effect ledger",
        description="You must choose `keep` or `redo` for every failed or compensated effect.",
        who=PERSON,
        request=RestartRunRequest,
        responses={200: RunControlResponse},
        refusals=("not_found", "run_active", "run_finished", "agent_halted", "self_review", "snapshot_erased"),
    )
    def post(self, request: Request, run_id: str) -> Response:
        person = person_of(request)
        sent = self.validated_body(request)
        run = control_run.restart_run(
            run_id=run_id,
            person=person,
            reason=sent["reason"],
            check=permissions.make_restart_check(person),
            checkpoint_number=sent["checkpoint"],
            choices=sent["effects"],
        )
        return Response(RunControlResponse.serialize(run))


class RetagRunView(ApiView):
    """The code version of a run."""

    @Operation(
        id="retag_run",
        summary="Give a run to another version of its agent's code",
        description="For owners of the agent and operators, while no worker holds a lease. Holds for want of a version "
        "that can read the checkpoint are lifted.",
        who=PERSON,
        request=RetagRunRequest,
        responses={200: RetaggedRunResponse},
        refusals=("not_found", "already_claimed", "run_cancelled", "run_finished"),
    )
    def post(self, request: Request, run_id: str) -> Response:
        person = person_of(request)
        sent = self.validated_body(request)
        run = control_run.retag_run(
            run_id=run_id,
            actor=person_actor(person),
            code_version=sent["code_version"],
            reason=sent["reason"],
            check=permissions.make_retag_check(person),
        )
        return Response(RetaggedRunResponse.serialize(run))


class HaltView(ApiView):
    """The kill switch of an agent, or of all agents."""

    @Operation(
        id="halt",
        summary="Halt an agent, or `all` agents",
        description="The kill switch: none of its runs starts, continues or begins an effect. The response lists the "
        "effects in flight.",
        who=PERSON,
        request=ReasonRequest,
        responses={200: HaltResponse},
        refusals=("not_found",),
    )
    def post(self, request: Request, slug: str) -> Response:
        person = person_of(request)
        reason = self.validated_body(request)["reason"]
        halted = kill_switch.halt(person, slug=slug, reason=reason)
        state = HaltState(agents=halted.agents, halted=True, effects_under_way=halted.under_way)
        return Response(HaltResponse.serialize(state))


class LiftHaltView(ApiView):
    """The end of a halt."""

    @Operation(
        id="lift",
        summary="Lift a halt",
        description="For operators.",
        who=PERSON,
        request=ReasonRequest,
        responses={200: HaltResponse},
        refusals=("not_found",),
    )
    def post(self, request: Request, slug: str) -> Response:
        person = person_of(request)
        reason = self.validated_body(request)["reason"]
        agents = kill_switch.lift(person, slug=slug, reason=reason)
        return Response(HaltResponse.serialize(HaltState(agents=agents, halted=False)))
