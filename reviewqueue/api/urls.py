"""The paths of the API. Ids are short opaque texts; any other text is not found."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.urls import path, re_path, register_converter
from django.views.decorators.csrf import csrf_exempt

from ledger.errors import NotFound
from reviewqueue.api.problems import plain_response
from reviewqueue.api.views import (
    checkpoint_files,
    client_identity,
    continuations,
    deploy_gate,
    effects,
    insights,
    interrupts,
    reviewer_actions,
    run_control,
    runs,
    schema,
    signals,
    steps,
    webhooks,
)


class PublicId:
    """An id as `ledger.public_ids` makes them, so that no text reaches a database that it could not store."""

    regex = "[a-z]{3}_[0-9a-z]{1,36}"

    def to_python(self, value: str) -> str:
        """Return the id."""
        return value

    def to_url(self, value: str) -> str:
        """Return the id."""
        return value


class Number:
    """The number of a checkpoint, within the range of its column."""

    regex = "0|[1-9][0-9]{0,8}"

    def to_python(self, value: str) -> int:
        """Return the number."""
        return int(value)

    def to_url(self, value: int) -> str:
        """Return its digits."""
        return str(value)


register_converter(PublicId, "id")
register_converter(Number, "number")


@csrf_exempt
@login_not_required
def unknown_path(request: HttpRequest, **_: Any) -> HttpResponse:
    """Answer an unknown path of the API with a problem instead of a page."""
    return plain_response(NotFound())


v1 = [
    path("agents/me", client_identity.Me.as_view()),
    path("asks", runs.Asks.as_view()),
    path("runs", runs.Runs.as_view()),
    path("runs/<id:run_id>", runs.OneRun.as_view()),
    path("runs/<id:run_id>/timeline", runs.Timeline.as_view()),
    path("runs/<id:run_id>/checkpoints", runs.Checkpoints.as_view()),
    path("runs/<id:run_id>/checkpoints/<number:number>", runs.OneCheckpoint.as_view()),
    path("runs/<id:run_id>/checkpoints/<number:number>/file", checkpoint_files.CheckpointFile.as_view()),
    path("runs/<id:run_id>/interrupts", runs.RunInterrupts.as_view()),
    path("runs/<id:run_id>/facts", runs.ReportedFacts.as_view()),
    path("runs/<id:run_id>/steps", steps.RunSteps.as_view()),
    path("runs/<id:run_id>/steps/<path:name>", steps.OneStep.as_view()),
    path("runs/<id:run_id>/lease", runs.Lease.as_view()),
    path("runs/<id:run_id>/lease/release", runs.LeaseRelease.as_view()),
    path("runs/<id:run_id>/complete", runs.Complete.as_view()),
    path("runs/<id:run_id>/fail", runs.Fail.as_view()),
    path("runs/<id:run_id>/effects", runs.RunEffects.as_view()),
    path("runs/<id:run_id>/effects/<str:key>/outcome", effects.EffectOutcome.as_view()),
    path("runs/<id:run_id>/effects/<path:key>", effects.OneEffect.as_view()),
    path("runs/<id:run_id>/pause", run_control.Pause.as_view()),
    path("runs/<id:run_id>/resume", run_control.Resume.as_view()),
    path("runs/<id:run_id>/cancel", run_control.Cancel.as_view()),
    path("runs/<id:run_id>/restart", run_control.Restart.as_view()),
    path("runs/<id:run_id>/retag", run_control.Retag.as_view()),
    path("agents/<slug:slug>/halt", run_control.Halt.as_view()),
    path("agents/<slug:slug>/lift", run_control.Lift.as_view()),
    path("decisions", reviewer_actions.ManyDecisions.as_view()),
    path("interrupts", interrupts.Interrupts.as_view()),
    path("interrupts/<id:interrupt_id>", interrupts.OneInterrupt.as_view()),
    path("interrupts/<id:interrupt_id>/decisions", interrupts.Decisions.as_view()),
    path("interrupts/<id:interrupt_id>/claim", reviewer_actions.Claim.as_view()),
    path("interrupts/<id:interrupt_id>/release", reviewer_actions.Release.as_view()),
    path("interrupts/<id:interrupt_id>/withdraw", interrupts.Withdraw.as_view()),
    path("interrupts/<id:interrupt_id>/assign", reviewer_actions.Assign.as_view()),
    path("interrupts/<id:interrupt_id>/extend", reviewer_actions.Extend.as_view()),
    path("interrupts/<id:interrupt_id>/undo", reviewer_actions.Undo.as_view()),
    path("interrupts/<id:interrupt_id>/comments", reviewer_actions.Comments.as_view()),
    path("waits/stranded", deploy_gate.Stranded.as_view()),
    path("webhooks", webhooks.Webhooks.as_view()),
    path("webhooks/<id:endpoint_id>", webhooks.OneWebhook.as_view()),
    path("webhooks/<id:endpoint_id>/rotate", webhooks.Rotate.as_view()),
    path("deliveries", webhooks.Deliveries.as_view()),
    path("deliveries/<id:delivery_id>/redeliver", webhooks.Redeliver.as_view()),
    path("signals", signals.Signals.as_view()),
    path("events", webhooks.Events.as_view()),
    path("schema", schema.Schema.as_view()),
    path("insights", insights.InsightsOfCaller.as_view()),
    path("continuations/claim", continuations.ClaimAny.as_view()),
    path("continuations/<id:continuation_id>/claim", continuations.ClaimOne.as_view()),
    re_path("", unknown_path),
]
