"""Planted requests: known-bad requests of leads, which measure how often reviewers catch them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from django.conf import settings
from django.db import models

from ledger.row_digests import FIXED, CoveredByPublicId
from runs.models.interrupts import Decision, Interrupt
from runs.models.policies import Queue
from runs.states import PlantedOutcome


class PlantedRequest(CoveredByPublicId, models.Model):
    """Marks an interrupt that a lead planted. Its run has no worker, and ``Run.planted`` is set.

    The audit log has its ``commitment`` from its creation on, and names the request when it is closed. So the mark
    cannot be made up later, and no reader of the audit log recognises the request before it is decided. Fault, verdicts
    and outcome are for the person who decided and the leads of the queue only.
    """

    public_id = models.CharField(max_length=40, unique=True)
    interrupt = models.OneToOneField(Interrupt, on_delete=models.PROTECT, related_name="planted")
    queue = models.ForeignKey(Queue, on_delete=models.PROTECT, related_name="+", help_text="the queue of the lead")
    planted_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    copied_from = models.ForeignKey(Interrupt, on_delete=models.PROTECT, null=True, related_name="+", db_index=False)
    run_key = models.CharField(
        max_length=200, blank=True, help_text="shown to people as the key of the run, which has none"
    )
    fault = models.CharField(max_length=1_000, help_text="what is wrong with it; shown after the decision")
    expected = models.JSONField(help_text="the verdicts that catch it")
    commitment = models.CharField(max_length=68, help_text="digest of what was planted, with fault and verdicts")
    created_at = models.DateTimeField()
    outcome = models.CharField(max_length=9, choices=PlantedOutcome.choices, blank=True, help_text="empty: it is open")
    decision = models.OneToOneField(
        Decision, on_delete=models.PROTECT, null=True, related_name="planted", help_text="null: no person decided it"
    )
    closed_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [models.Index(fields=["queue", "-id"], name="planted_requests_of_a_queue")]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(outcome="", closed_at=None) | ~models.Q(outcome="") & ~models.Q(closed_at=None),
                name="a_closed_planted_request_has_an_outcome",
            )
        ]

    def __str__(self) -> str:
        return self.public_id

    covered_kind = "planted_request"
    #: Never change a tuple: the events of earlier versions cover exactly these columns.
    covered_parts: ClassVar[Mapping[str, tuple[str, ...]]] = {
        FIXED: (
            "public_id",
            "interrupt_id",
            "queue_id",
            "planted_by_id",
            "copied_from_id",
            "commitment",
            "created_at",
            "decision_id",
            "closed_at",
        ),
    }
