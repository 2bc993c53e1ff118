"""Continuations, hand-backs and holds."""

from __future__ import annotations

from django.contrib.auth.models import Group
from django.db import models

from runs.models.agents import Agent
from runs.models.run import Checkpoint, Run
from runs.states import OPEN_CONTINUATIONS, ContinuationKind, ContinuationStatus


class Continuation(models.Model):
    """The right to continue a run from a checkpoint. Only the worker that leased it owns it."""

    public_id = models.CharField(max_length=40, unique=True)
    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="continuations")
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="+", db_index=False)
    checkpoint = models.ForeignKey(Checkpoint, on_delete=models.PROTECT, related_name="+", db_index=False)
    status = models.CharField(max_length=12, choices=ContinuationStatus.choices)
    kind = models.CharField(max_length=10, choices=ContinuationKind.choices, default=ContinuationKind.RESUME)
    cause = models.CharField(max_length=20)
    priority = models.SmallIntegerField(default=50)
    not_before = models.DateTimeField()
    check_due_at = models.DateTimeField(null=True)
    check_token = models.CharField(max_length=40, blank=True, help_text="identifies the current check")
    check_attempts = models.PositiveSmallIntegerField(default=0)
    checked_until = models.DateTimeField(null=True)
    fence = models.PositiveIntegerField(null=True, help_text="the lease that has or had it")
    request_key = models.CharField(max_length=200, blank=True, help_text="Idempotency-Key of the claim")
    code_version = models.CharField(max_length=100, blank=True, help_text="of the worker that claimed it")
    leased_at = models.DateTimeField(null=True)
    acknowledged_at = models.DateTimeField(null=True)
    effects_skipped = models.PositiveIntegerField(
        default=0, help_text="intents of its lease that got an outcome recorded by an earlier lease"
    )
    trace_parent = models.CharField(max_length=55, null=True, help_text="W3C traceparent of the answer")
    void_reason = models.CharField(max_length=300, blank=True)
    of = models.ForeignKey(
        "self", on_delete=models.PROTECT, null=True, related_name="+", help_text="the continuation that it replaces"
    )
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["run"],
                condition=models.Q(status__in=sorted(OPEN_CONTINUATIONS)),
                name="at_most_one_open_continuation_per_run",
            )
        ]
        indexes = [
            models.Index(
                fields=["agent", "-priority", "not_before", "id"],
                condition=models.Q(status=ContinuationStatus.READY),
                name="ready_continuations_in_order",
            ),
            models.Index(
                fields=["check_due_at"],
                condition=models.Q(status=ContinuationStatus.CHECKING),
                name="continuations_to_check",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.public_id} ({self.status})"


class HandBack(models.Model):
    """A code version that handed the run back because it cannot read the checkpoint. It is not offered the run again."""

    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="hand_backs", db_index=False)
    code_version = models.CharField(max_length=100, blank=True, help_text="empty: the worker named none")
    reason = models.CharField(max_length=20)
    detail = models.CharField(max_length=300, blank=True)
    at = models.DateTimeField()
    over_at = models.DateTimeField(
        null=True, help_text="ended by a new checkpoint, a restart, the end of the run or a person"
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["run", "code_version"],
                condition=models.Q(over_at__isnull=True),
                name="one_standing_hand_back_per_version_of_a_run",
            )
        ]

    def __str__(self) -> str:
        return f"{self.code_version} {self.reason}"


class Hold(models.Model):
    """A named reason why a run cannot be claimed, with the group that can lift it."""

    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="holds")
    kind = models.CharField(max_length=20)
    subject = models.CharField(max_length=300, blank=True, help_text="the effect's key, the fact's name, ...")
    owner = models.ForeignKey(Group, on_delete=models.PROTECT, related_name="+")
    opened_at = models.DateTimeField()
    lifted_at = models.DateTimeField(null=True)
    lifted_by = models.CharField(max_length=300, blank=True)
    reason = models.CharField(max_length=300, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["run", "kind", "subject"],
                condition=models.Q(lifted_at__isnull=True),
                name="one_open_hold_per_subject",
            )
        ]
        indexes = [
            models.Index(fields=["owner"], condition=models.Q(lifted_at__isnull=True), name="open_holds_of_an_owner")
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.subject}"
