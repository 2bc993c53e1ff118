"""The paths of the API. Ids are short opaque texts; any other text is not found."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.urls import path, re_path, register_converter
from django.urls.converters import IntConverter, StringConverter
from django.views.decorators.csrf import csrf_exempt

from ledger.errors import NotFound
from reviewqueue.api.problems import plain_response
from reviewqueue.api.views import (
    administration,
    attachments,
    audit_log,
    batches,
    checkpoint_files,
    client_identity,
    continuations,
    deploy_gate,
    effects,
    evidence,
    insights,
    interrupts,
    planted_requests,
    reconciliation,
    reviewer_actions,
    run_control,
    runs,
    schema,
    signals,
    standing_rules,
    steps,
    webhooks,
)


class PublicId(StringConverter):
    """An id as `ledger.public_ids` makes them, so that no text reaches a database that it could not store."""

    regex = "[a-z]{3}_[0-9a-z]{1,36}"


class Number(IntConverter):
    """The number of a checkpoint, within the range of its column."""

    regex = "0|[1-9][0-9]{0,8}"


class FileDigest(StringConverter):
    """The digest of an attached file."""

    regex = "sha256:[0-9a-f]{64}"


register_converter(PublicId, "id")
register_converter(FileDigest, "file_digest")
register_converter(Number, "number")


@csrf_exempt
@login_not_required
def unknown_path(request: HttpRequest, **_: Any) -> HttpResponse:
    """Answer an unknown path of the API with a problem instead of a page."""
    return plain_response(NotFound())


v1 = [
    # The most frequent calls come first, because Django tries the paths in this order.
    path("asks", runs.AskView.as_view()),
    path("interrupts/<id:interrupt_id>/decisions", interrupts.DecisionsView.as_view()),
    path("continuations/claim", continuations.ClaimContinuationsView.as_view()),
    path("agents/me", client_identity.ClientIdentityView.as_view()),
    path("asks/batch", batches.AskBatchView.as_view()),
    path("runs", runs.RunsView.as_view()),
    path("runs/<id:run_id>", runs.RunView.as_view()),
    path("runs/<id:run_id>/timeline", runs.TimelineView.as_view()),
    path("runs/<id:run_id>/evidence", evidence.RunEvidenceView.as_view()),
    path("runs/<id:run_id>/checkpoints", runs.CheckpointsView.as_view()),
    path("runs/<id:run_id>/checkpoints/<number:number>", runs.CheckpointView.as_view()),
    path("runs/<id:run_id>/checkpoints/<number:number>/file", checkpoint_files.CheckpointFileView.as_view()),
    path("runs/<id:run_id>/interrupts", runs.RunInterruptsView.as_view()),
    path("runs/<id:run_id>/facts", runs.ReportFactsView.as_view()),
    path("runs/<id:run_id>/facts/waive", reconciliation.WaiveFactView.as_view()),
    path("runs/<id:run_id>/holds/lift", reconciliation.LiftHoldView.as_view()),
    path("runs/<id:run_id>/steps", steps.RunStepsView.as_view()),
    path("runs/<id:run_id>/steps/<path:name>", steps.StepView.as_view()),
    path("runs/<id:run_id>/lease", runs.LeaseView.as_view()),
    path("runs/<id:run_id>/lease/release", runs.ReleaseLeaseView.as_view()),
    path("runs/<id:run_id>/complete", runs.CompleteRunView.as_view()),
    path("runs/<id:run_id>/fail", runs.FailRunView.as_view()),
    path("runs/<id:run_id>/effects", runs.RunEffectsView.as_view()),
    path("runs/<id:run_id>/effects/<str:key>/outcome", effects.EffectOutcomeView.as_view()),
    path("runs/<id:run_id>/effects/<str:key>/resolve", reconciliation.ResolveEffectView.as_view()),
    path("runs/<id:run_id>/effects/<path:key>", effects.EffectView.as_view()),
    path("runs/<id:run_id>/answers", runs.RunAnswersView.as_view()),
    path("runs/<id:run_id>/permits", runs.RunPermitsView.as_view()),
    path("runs/<id:run_id>/compensations", runs.RunCompensationsView.as_view()),
    path("runs/<id:run_id>/pause", run_control.PauseRunView.as_view()),
    path("runs/<id:run_id>/resume", run_control.ResumeRunView.as_view()),
    path("runs/<id:run_id>/cancel", run_control.CancelRunView.as_view()),
    path("runs/<id:run_id>/restart", run_control.RestartRunView.as_view()),
    path("runs/<id:run_id>/retag", run_control.RetagRunView.as_view()),
    path("agents/<slug:slug>/halt", run_control.HaltView.as_view()),
    path("agents/<slug:slug>/lift", run_control.LiftHaltView.as_view()),
    path("agents", administration.AgentsView.as_view()),
    path("agents/<slug:slug>", administration.AgentView.as_view()),
    path("agents/<slug:slug>/keys", administration.KeysView.as_view()),
    path("agents/<slug:slug>/keys/<slug:prefix>/rotate", administration.RotateKeyView.as_view()),
    path("agents/<slug:slug>/keys/<slug:prefix>/revoke", administration.RevokeKeyView.as_view()),
    path("agents/<slug:slug>/effect-rules", administration.EffectRulesView.as_view()),
    path("agents/<slug:slug>/effect-rules/remove", administration.RemoveEffectRuleView.as_view()),
    path("agents/<slug:slug>/connections", administration.ConnectionsView.as_view()),
    path("agents/<slug:slug>/connections/<slug:name>/test", administration.ConnectionTestView.as_view()),
    path("agents/<slug:slug>/connections/<slug:name>/remove", administration.RemoveConnectionView.as_view()),
    path("agents/<slug:slug>/effect-mode", administration.EffectModeView.as_view()),
    path("agents/<slug:slug>/call-labels", administration.CallLabelsView.as_view()),
    path("agents/<slug:slug>/call-labels/remove", administration.RemoveCallLabelView.as_view()),
    path("queues", administration.QueuesView.as_view()),
    path("queues/<slug:slug>", administration.QueueView.as_view()),
    path("policies", administration.PoliciesView.as_view()),
    path("policies/preview", administration.PreviewPolicyView.as_view()),
    path("standing-rules", standing_rules.StandingRulesView.as_view()),
    path("standing-rules/preview", standing_rules.PreviewStandingRuleView.as_view()),
    path("standing-rules/<id:rule_id>", standing_rules.StandingRuleView.as_view()),
    path("standing-rules/<id:rule_id>/revoke", standing_rules.RevokeStandingRuleView.as_view()),
    path("planted-requests", planted_requests.PlantedRequestsView.as_view()),
    path("planted-requests/<id:planted_id>", planted_requests.PlantedRequestView.as_view()),
    path("planted-requests/<id:planted_id>/withdraw", planted_requests.WithdrawPlantedRequestView.as_view()),
    path("decisions", reviewer_actions.BulkDecisionsView.as_view()),
    path("decisions/batch", batches.DecisionBatchView.as_view()),
    path("decisions/<id:decision_id>/evidence", evidence.DecisionEvidenceView.as_view()),
    path("evidence", evidence.EvidenceView.as_view()),
    path("interrupts", interrupts.InterruptsView.as_view()),
    path("interrupts/<id:interrupt_id>", interrupts.InterruptView.as_view()),
    path("interrupts/<id:interrupt_id>/attachments", attachments.AttachmentsView.as_view()),
    path("interrupts/<id:interrupt_id>/attachments/<file_digest:digest>", attachments.AttachmentView.as_view()),
    path("interrupts/<id:interrupt_id>/claim", reviewer_actions.ClaimView.as_view()),
    path("interrupts/<id:interrupt_id>/release", reviewer_actions.ReleaseView.as_view()),
    path("interrupts/<id:interrupt_id>/withdraw", interrupts.WithdrawView.as_view()),
    path("interrupts/<id:interrupt_id>/assign", reviewer_actions.AssignView.as_view()),
    path("interrupts/<id:interrupt_id>/extend", reviewer_actions.ExtendView.as_view()),
    path("interrupts/<id:interrupt_id>/undo", reviewer_actions.UndoView.as_view()),
    path("interrupts/<id:interrupt_id>/comments", reviewer_actions.CommentsView.as_view()),
    path("waits/stranded", deploy_gate.StrandedRunsView.as_view()),
    path("webhooks", webhooks.WebhooksView.as_view()),
    path("webhooks/<id:endpoint_id>", webhooks.WebhookView.as_view()),
    path("webhooks/<id:endpoint_id>/rotate", webhooks.RotateSecretView.as_view()),
    path("deliveries", webhooks.DeliveriesView.as_view()),
    path("deliveries/<id:delivery_id>/redeliver", webhooks.RedeliverView.as_view()),
    path("signals", signals.SignalsView.as_view()),
    path("events", webhooks.FeedView.as_view()),
    path("schema", schema.SchemaView.as_view()),
    path("audit-log", audit_log.AuditLogView.as_view()),
    path("insights", insights.InsightsView.as_view()),
    path("continuations/<id:continuation_id>/claim", continuations.ClaimContinuationView.as_view()),
    re_path("", unknown_path),
]
