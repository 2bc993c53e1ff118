"""Run control and the kill switch: pause, resume, cancel, restart, halt, lift; each may be asked again, with its reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib.auth.models import AbstractUser
from rest_framework.request import Request
from rest_framework.response import Response

from ledger.errors import NotFound, Refusal
from reviewqueue import authority
from reviewqueue.api import desk_shapes, replies
from reviewqueue.api.authentication import controller_of, person_of
from reviewqueue.api.fields import read
from reviewqueue.api.rows import runs_of
from reviewqueue.api.views.base import ApiView, body_of
from runs import control, halting
from runs.errors import NotPermitted
from runs.models import Agent, Run

#: The slug that means every agent.
EVERY = "all"


class _Control(ApiView):
    """One lever, for the people who may pull it and for the agent itself."""

    verb: Callable[..., Run]

    def post(self, request: Request, run_id: str) -> Response:
        """Pull it."""
        caller = controller_of(request)
        reason = read(desk_shapes.ReasonShape, body_of(request))["reason"] or ""
        visible = runs_of(caller)

        def check(run: Run) -> None:
            if not visible.filter(pk=run.pk).exists():
                raise NotFound
            refusal = None if caller.person is None else authority.why_not_control(caller.person, run)
            if refusal is not None:
                raise refusal

        name = f"person:{caller.person.get_username()}" if caller.person else f"agent:{caller.agent.slug}"  # type: ignore[union-attr]
        run = type(self).verb(run_id=run_id, actor=name, reason=reason, check=check)
        return Response(replies.run_controlled(run))


class Pause(_Control):
    """Stop at the next safe point; at once where no worker is."""

    verb = staticmethod(control.pause_run)


class Resume(_Control):
    """Take the pause back."""

    verb = staticmethod(control.resume_run)


class Cancel(_Control):
    """End the run."""

    verb = staticmethod(control.cancel_run)


class Restart(ApiView):
    """The second life of an ended run."""

    def post(self, request: Request, run_id: str) -> Response:
        """Revive it from a checkpoint, with its ledger."""
        person = person_of(request)
        sent = read(desk_shapes.RestartShape, body_of(request))
        visible = authority.visible_runs(person)

        def check(run: Run) -> None:
            if not visible.filter(pk=run.pk).exists():
                raise NotFound
            refusal = authority.why_not_restart(person, run)
            if refusal is not None:
                raise refusal

        run = control.restart_run(
            run_id=run_id,
            person=person,
            reason=sent["reason"],
            check=check,
            checkpoint_number=sent["checkpoint"],
            choices=sent["effects"],
        )
        return Response(replies.run_controlled(run))


class Halt(ApiView):
    """The kill switch of an agent, or of all."""

    def post(self, request: Request, slug: str) -> Response:
        """Pull it, wait until nobody is between the gate and its record, and tell what is under way."""
        person = person_of(request)
        reason = read(desk_shapes.NeedsReasonShape, body_of(request))["reason"]
        slugs = _agents(slug, person, why_not=_why_not_halt)
        under_way = halting.halt_agents(slugs=slugs, actor=f"person:{person.get_username()}", reason=reason)
        shown: list[Any] = [{"run": effect.scope, "key": effect.key, "name": effect.name} for effect in under_way]
        return Response({"agents": slugs, "halted": True, "effects_under_way": shown})


class Lift(ApiView):
    """The end of a halt."""

    def post(self, request: Request, slug: str) -> Response:
        """Let the agents go on."""
        person = person_of(request)
        reason = read(desk_shapes.NeedsReasonShape, body_of(request))["reason"]
        slugs = _agents(slug, person, why_not=_why_not_lift)
        halting.lift_halts(slugs=slugs, actor=f"person:{person.get_username()}", reason=reason)
        return Response({"agents": slugs, "halted": False, "effects_under_way": []})


def _agents(
    slug: str, person: AbstractUser, *, why_not: Callable[[AbstractUser, Agent | None], Refusal | None]
) -> list[str]:
    """Return the agents that are meant, if the person may; one that they have nothing to do with looks missing."""
    if slug == EVERY:
        refusal = why_not(person, None)
        if refusal is not None:
            raise refusal
        return list(Agent.objects.order_by("slug").values_list("slug", flat=True))
    agent = Agent.objects.filter(slug=slug).first()
    if agent is None or not authority.answers_for(person, agent):
        raise NotFound
    refusal = why_not(person, agent)
    if refusal is not None:
        raise refusal
    return [agent.slug]


def _why_not_halt(person: AbstractUser, agent: Agent | None) -> Refusal | None:
    if authority.is_operator(person) or (agent is not None and authority.answers_for(person, agent)):
        return None
    return NotPermitted("Only operators halt every agent.")


def _why_not_lift(person: AbstractUser, agent: Agent | None) -> Refusal | None:
    return None if authority.is_operator(person) else NotPermitted("Only operators lift a halt.")
