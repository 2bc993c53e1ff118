"""Runs with their checkpoints, files, progress and outcome."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from django.conf import settings
from django.db import models

from ledger.exact_json import ExactJSONField
from ledger.row_digests import FIXED, STATE
from runs.models.agents import Agent
from runs.states import ContinuationStatus, FileStatus, RunStatus


class Run(models.Model):
    """One execution. The row is narrow, because every transition updates it.

    Ended, ending, lease, pause, holds, continuation and open interrupts each have their own columns; ``status`` is
    computed from them by ``run_status``.
    """

    public_id = models.CharField(max_length=40, unique=True)
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="runs", db_index=False)
    key = models.CharField(max_length=200, blank=True)
    body_digest = models.CharField(max_length=68, blank=True)
    title = models.CharField(max_length=300)
    initiator = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+")
    parent = models.ForeignKey("self", on_delete=models.PROTECT, null=True, related_name="children", db_index=False)
    root = models.ForeignKey(
        "self", on_delete=models.PROTECT, null=True, related_name="+", help_text="the topmost ancestor"
    )
    depth = models.PositiveSmallIntegerField(default=1)
    tells_parent = models.BooleanField(
        default=False, help_text="it has ended, and the sweep has not handled its parent yet"
    )
    code_version = models.CharField(max_length=100, blank=True)
    metadata = models.JSONField(default=dict)
    created_at = models.DateTimeField()

    status = models.CharField(max_length=12, choices=RunStatus.choices)
    ended_at = models.DateTimeField(null=True)
    ending = models.CharField(
        max_length=9, blank=True, help_text="the final status of an ending run: cancelled, expired or failed"
    )
    ending_reason = models.CharField(max_length=300, blank=True)
    ending_on = models.CharField(max_length=7, blank=True, help_text="what ended it: cancel, expire, fail or reject")
    lease_until = models.DateTimeField(null=True)
    pause_asked_at = models.DateTimeField(null=True)
    pause_asked_by = models.CharField(max_length=300, blank=True)
    pause_reason = models.CharField(max_length=300, blank=True)
    stop_by = models.DateTimeField(null=True, help_text="when a worker that must stop loses its lease")
    open_holds = models.PositiveSmallIntegerField(default=0)
    open_continuation = models.CharField(max_length=12, blank=True, choices=ContinuationStatus.choices)
    open_waits = models.PositiveSmallIntegerField(default=0)
    ready_since = models.DateTimeField(null=True, help_text="since when a compatible worker can claim it")
    handed_back = models.PositiveSmallIntegerField(default=0, help_text="code versions that cannot read its checkpoint")

    epoch = models.PositiveIntegerField(default=1)
    checkpoint_number = models.PositiveIntegerField(default=0)
    file_offered = models.BooleanField(default=False, help_text="a file was uploaded for the next checkpoint")
    fence = models.PositiveIntegerField(default=0, help_text="raised by every lease and by the end of one")
    lease_seconds = models.PositiveIntegerField(default=60)
    max_step_seconds = models.PositiveIntegerField(default=900)
    attempts = models.PositiveSmallIntegerField(default=0, help_text="claims since the last boundary")
    unclaimed_seconds = models.PositiveIntegerField(default=86400)
    expires_at = models.DateTimeField(null=True, help_text="when the run expires if it has no lease")
    sweep_after = models.DateTimeField(null=True, help_text="deferred by a failed sweep until then")
    snapshots_erased_at = models.DateTimeField(null=True, help_text="when the retention sweep erased the states")
    planted = models.BooleanField(
        null=True, help_text="true: a lead planted it; no agent sees it, and nothing runs. NULL: an agent's run"
    )
    timeline_seq = models.PositiveIntegerField(default=0)
    timeline_head = models.CharField(max_length=68, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["agent", "key"], condition=~models.Q(key=""), name="one_run_per_key_of_an_agent"
            ),
            models.CheckConstraint(
                condition=models.Q(ended_at__isnull=True)
                ^ models.Q(status__in=["completed", "failed", "cancelled", "expired"]),
                name="a_run_has_ended_when_its_status_is_final",
            ),
            models.CheckConstraint(
                condition=models.Q(open_waits=0) | models.Q(lease_until__isnull=True, open_continuation=""),
                name="an_open_wait_means_no_lease_and_no_continuation",
            ),
        ]
        indexes = [
            models.Index(
                fields=["lease_until"], condition=models.Q(lease_until__isnull=False), name="leases_by_their_end"
            ),
            models.Index(fields=["expires_at"], condition=models.Q(ended_at__isnull=True), name="runs_by_their_end"),
            models.Index(
                fields=["ready_since"], condition=models.Q(ready_since__isnull=False), name="runs_that_await_a_worker"
            ),
            models.Index(fields=["agent", "status", "id"], name="runs_of_an_agent_by_status"),
            models.Index(
                fields=["parent", "ended_at"], condition=models.Q(parent__isnull=False), name="children_of_a_run"
            ),
            models.Index(fields=["id"], condition=models.Q(tells_parent=True), name="runs_that_tell_their_parent"),
            models.Index(
                fields=["ended_at"],
                condition=models.Q(ended_at__isnull=False, snapshots_erased_at__isnull=True),
                name="ended_runs_with_snapshots",
            ),
        ]

    def __str__(self) -> str:
        return self.public_id


class Progress(models.Model):
    """The progress of the last heartbeat, in a row of its own to keep the run narrow."""

    run = models.OneToOneField(Run, on_delete=models.PROTECT, related_name="progress")
    text = models.CharField(max_length=300, blank=True)
    done = models.PositiveIntegerField(null=True)
    of = models.PositiveIntegerField(null=True)
    spent = models.CharField(max_length=100, blank=True)
    at = models.DateTimeField()

    def __str__(self) -> str:
        return self.text


class Outcome(models.Model):
    """The result of ``complete`` or ``fail``, which identifies the same request if it is repeated."""

    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="outcomes")
    epoch = models.PositiveIntegerField()
    fence = models.PositiveIntegerField()
    kind = models.CharField(max_length=9)
    result = ExactJSONField(default=None)
    at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "epoch"], name="one_outcome_per_epoch_of_a_run")]

    def __str__(self) -> str:
        return self.kind


class CheckpointFile(models.Model):
    """The uploaded file of a checkpoint, in Django's storage. Digest and size stay when the bytes are erased.

    The row is written before the bytes, so that the storage never has bytes without a row.
    """

    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="files", db_index=False)
    number = models.PositiveIntegerField(help_text="of the checkpoint that it was sent for; a restart's copy keeps it")
    fence = models.PositiveIntegerField(help_text="the lease that sent it")
    name = models.CharField(max_length=200, unique=True, help_text="in the storage")
    digest = models.CharField(max_length=71, help_text="sha256: and the SHA-256 of the bytes")
    size = models.PositiveBigIntegerField(help_text="in bytes")
    status = models.CharField(max_length=8, choices=FileStatus.choices)
    created_at = models.DateTimeField()
    erased_at = models.DateTimeField(null=True, help_text="its bytes are gone, its digest and size are kept")
    sweep_after = models.DateTimeField(null=True, help_text="deferred by a failed sweep until then")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["run", "number"],
                condition=models.Q(status__in=["offered", "kept"]),
                name="one_file_per_checkpoint_of_a_run",
            ),
        ]
        indexes = [
            models.Index(fields=["run", "number"], name="files_of_a_run"),
            models.Index(
                fields=["status", "id"],
                condition=models.Q(status__in=["arriving", "offered", "unwanted"]),
                name="files_that_may_go",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.number} {self.digest}"


class Checkpoint(models.Model):
    """An immutable, numbered snapshot at a safe point."""

    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="checkpoints", db_index=False)
    number = models.PositiveIntegerField()
    epoch = models.PositiveIntegerField()
    fence = models.PositiveIntegerField()
    step = models.CharField(max_length=200)
    replay_from = models.CharField(
        max_length=200, blank=True, help_text="the step from which a replaying worker starts"
    )
    state = ExactJSONField()
    digest = models.CharField(max_length=68, help_text="of the state")
    format = models.CharField(max_length=60, default="json")
    file = models.ForeignKey(
        CheckpointFile, on_delete=models.PROTECT, null=True, related_name="checkpoints", db_index=False
    )
    code_version = models.CharField(max_length=100, blank=True)
    request_digest = models.CharField(max_length=68, blank=True, help_text="identifies a repeated request")
    resume_when = models.CharField(max_length=3, blank=True)
    erased_at = models.DateTimeField(null=True, help_text="its state is gone, its digest is kept")
    taken_at = models.DateTimeField(null=True, help_text="for a copy made by a restart: when the original was written")
    created_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "number"], name="one_checkpoint_per_number_of_a_run")]
        indexes = [
            models.Index(fields=["file"], condition=models.Q(file__isnull=False), name="checkpoints_of_a_file"),
        ]

    def __str__(self) -> str:
        return f"{self.number} {self.step}"

    #: Never change a tuple: the events of earlier versions cover exactly these columns.
    covered_parts: ClassVar[Mapping[str, tuple[str, ...]]] = {
        FIXED: (
            "number",
            "epoch",
            "fence",
            "step",
            "replay_from",
            "digest",
            "format",
            "file_id",
            "code_version",
            "request_digest",
            "resume_when",
            "taken_at",
            "created_at",
        ),
        STATE: ("erased_at",),
    }

    @property
    def covered_as(self) -> str:
        return f"checkpoint:{self.number}"
