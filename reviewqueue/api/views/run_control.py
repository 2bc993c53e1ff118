"""Run control and the kill switch: pause, resume, cancel, retag, restart, halt, lift; each with its reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from ledger.actors import by_person
from ledger.errors import NotFound
from reviewqueue import permissions
from reviewqueue.api import responses
from reviewqueue.api.authentication import Caller, controller_of, person_of
from reviewqueue.api.scoped_querysets import runs_of
from reviewqueue.api.serializers import reviewer_action_serializers
from reviewqueue.api.serializers.fields import read
from reviewqueue.api.views.base import ApiView, body_of
from reviewqueue.operations import kill_switch
from runs.models import Run
from runs.use_cases import control_run


class _Control(ApiView):
    """One lever, for the people who may pull it and for the agent itself."""

    verb: Callable[..., Run]

    def post(self, request: Request, run_id: str) -> Response:
        """Pull it."""
        caller = controller_of(request)
        reason = read(reviewer_action_serializers.ReasonShape, body_of(request))["reason"] or ""
        check = _own_run(caller) if caller.person is None else permissions.control_check(caller.person)
        run = type(self).verb(run_id=run_id, actor=caller.name, reason=reason, check=check)
        return Response(responses.run_controlled(run))


class Pause(_Control):
    """Stop at the next safe point; at once where no worker is."""

    verb = staticmethod(control_run.pause_run)


class Resume(_Control):
    """Take the pause back."""

    verb = staticmethod(control_run.resume_run)


class Cancel(_Control):
    """End the run."""

    verb = staticmethod(control_run.cancel_run)


class Restart(ApiView):
    """The second life of an ended run."""

    def post(self, request: Request, run_id: str) -> Response:
        """Revive it from a checkpoint, with its ledger."""
        person = person_of(request)
        sent = read(reviewer_action_serializers.RestartShape, body_of(request))
        run = control_run.restart_run(
            run_id=run_id,
            person=person,
            reason=sent["reason"],
            check=permissions.restart_check(person),
            checkpoint_number=sent["checkpoint"],
            choices=sent["effects"],
        )
        return Response(responses.run_controlled(run))


class Retag(ApiView):
    """Another version of the code for a run that waits for one."""

    def post(self, request: Request, run_id: str) -> Response:
        """Give it to that version, and let go what kept it back for want of one."""
        person = person_of(request)
        sent = read(reviewer_action_serializers.RetagShape, body_of(request))
        run = control_run.retag_run(
            run_id=run_id,
            actor=by_person(person),
            code_version=sent["code_version"],
            reason=sent["reason"],
            check=permissions.retag_check(person),
        )
        return Response(responses.run_retagged(run))


class Halt(ApiView):
    """The kill switch of an agent, or of all."""

    def post(self, request: Request, slug: str) -> Response:
        """Pull it, wait until nobody is between the gate and its record, and tell what is under way."""
        person = person_of(request)
        reason = read(reviewer_action_serializers.NeedsReasonShape, body_of(request))["reason"]
        halted = kill_switch.halt(person, slug=slug, reason=reason)
        shown: list[Any] = [
            {"run": effect.scope, "key": effect.key, "name": effect.name} for effect in halted.under_way
        ]
        return Response({"agents": halted.agents, "halted": True, "effects_under_way": shown})


class Lift(ApiView):
    """The end of a halt."""

    def post(self, request: Request, slug: str) -> Response:
        """Let the agents go on."""
        person = person_of(request)
        reason = read(reviewer_action_serializers.NeedsReasonShape, body_of(request))["reason"]
        agents = kill_switch.lift(person, slug=slug, reason=reason)
        return Response({"agents": agents, "halted": False, "effects_under_way": []})


def _own_run(caller: Caller) -> Callable[[Run], None]:
    visible = runs_of(caller)

    def check(run: Run) -> None:
        if not visible.filter(pk=run.pk).exists():
            raise NotFound

    return check
