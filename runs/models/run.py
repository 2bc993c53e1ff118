"""A run and what carries it over its workers: checkpoints, facts, continuations, holds, its last words."""

from __future__ import annotations

from typing import Any, Self

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import models

from ledger.exact import ExactJSONField
from ledger.transactions import assert_open
from runs.models.agents import Agent, Connection
from runs.states import OPEN_CONTINUATIONS, ContinuationStatus, OnChange, RunStatus


class RunQuerySet(models.QuerySet["Run"]):
    """Runs, and the one way to lock them."""

    def locked(self, *, skip: bool = False) -> Self:
        """Lock the rows: the first lock of every move. NO KEY, since plain FOR UPDATE would block foreign-key inserts.

        ``skip`` leaves out the rows that another transaction holds.
        """
        assert_open()
        return self.select_for_update(of=("self",), no_key=True, skip_locked=skip)


class Run(models.Model):
    """One execution. Narrow on purpose: every move updates this row, and no JSON travels with it.

    The separate truths (ended, ending, lease, pause asked, open holds, open continuation, open waits) stand in their own
    columns; ``status`` is what ``standing.standing`` makes of them.
    """

    public_id = models.CharField(max_length=40, unique=True)
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="runs", db_index=False)
    key = models.CharField(max_length=200, blank=True)
    body_digest = models.CharField(max_length=68, blank=True)
    title = models.CharField(max_length=300)
    initiator = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+")
    code_version = models.CharField(max_length=100, blank=True)
    metadata = models.JSONField(default=dict)
    created_at = models.DateTimeField()

    status = models.CharField(max_length=12, choices=RunStatus.choices)
    ended_at = models.DateTimeField(null=True)
    ending = models.CharField(max_length=9, blank=True, help_text="cancelled, expired or failed: where it is going")
    ending_reason = models.CharField(max_length=300, blank=True)
    lease_until = models.DateTimeField(null=True)
    pause_asked_at = models.DateTimeField(null=True)
    pause_asked_by = models.CharField(max_length=300, blank=True)
    pause_reason = models.CharField(max_length=300, blank=True)
    stop_by = models.DateTimeField(null=True, help_text="a worker that was asked to stop keeps its lease until then")
    open_holds = models.PositiveSmallIntegerField(default=0)
    open_continuation = models.CharField(max_length=12, blank=True, choices=ContinuationStatus.choices)
    open_waits = models.PositiveSmallIntegerField(default=0)

    epoch = models.PositiveIntegerField(default=1)
    checkpoint_number = models.PositiveIntegerField(default=0)
    fence = models.PositiveIntegerField(default=0, help_text="raised by every lease and by the end of one")
    lease_seconds = models.PositiveIntegerField(default=60)
    max_step_seconds = models.PositiveIntegerField(default=900)
    attempts = models.PositiveSmallIntegerField(default=0, help_text="claims since the last boundary")
    unclaimed_seconds = models.PositiveIntegerField(default=86400)
    expires_at = models.DateTimeField(null=True, help_text="its end, while nobody holds a lease")
    sweep_after = models.DateTimeField(null=True, help_text="a sweep broke on this row: not again before")
    timeline_seq = models.PositiveIntegerField(default=0)
    timeline_head = models.CharField(max_length=68, blank=True)

    objects = RunQuerySet.as_manager()

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
            models.Index(fields=["agent", "status", "id"], name="runs_of_an_agent_by_status"),
        ]

    def __str__(self) -> str:
        return self.public_id


class Progress(models.Model):
    """The last thing a heartbeat said; a row of its own, so that heartbeats leave the run narrow."""

    run = models.OneToOneField(Run, on_delete=models.PROTECT, related_name="progress")
    text = models.CharField(max_length=300, blank=True)
    done = models.PositiveIntegerField(null=True)
    of = models.PositiveIntegerField(null=True)
    spent = models.CharField(max_length=100, blank=True)
    at = models.DateTimeField()

    def __str__(self) -> str:
        return self.text


class Outcome(models.Model):
    """What a run ended with, by ``complete`` or ``fail``; the same call by the same lease is known again by it."""

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


class Checkpoint(models.Model):
    """An immutable, numbered snapshot at a safe point."""

    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="checkpoints", db_index=False)
    number = models.PositiveIntegerField()
    epoch = models.PositiveIntegerField()
    fence = models.PositiveIntegerField()
    step = models.CharField(max_length=200)
    replay_from = models.CharField(max_length=200, blank=True, help_text="the step a replaying worker starts from")
    state = ExactJSONField()
    digest = models.CharField(max_length=68, help_text="of the state")
    format = models.CharField(max_length=60, default="json")
    code_version = models.CharField(max_length=100, blank=True)
    request_digest = models.CharField(max_length=68, blank=True, help_text="the same call again is known by it")
    resume_when = models.CharField(max_length=3, blank=True)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "number"], name="one_checkpoint_per_number_of_a_run")]

    def __str__(self) -> str:
        return f"{self.number} {self.step}"


class FactKind(models.TextChoices):
    """Credentials are facts too: their value is who or until when, never the secret."""

    VALUE = "value"
    CREDENTIAL = "credential"


class FactCheck(models.TextChoices):
    """Who checks a fact again: this server by a connection, the worker after its claim, or nobody (shown only)."""

    CONNECTION = "connection"
    WORKER = "worker"
    NONE = "none"


class FactStatus(models.TextChoices):
    """How the last check of a fact ended."""

    UNCHECKED = "unchecked"
    SAME = "same"
    CHANGED = "changed"
    UNAVAILABLE = "unavailable"


class Fact(models.Model):
    """An assumption that the rest of the run depends on; of a checkpoint, or of one interrupt asked there."""

    checkpoint = models.ForeignKey(Checkpoint, on_delete=models.PROTECT, related_name="facts")
    interrupt = models.ForeignKey("runs.Interrupt", on_delete=models.PROTECT, null=True, related_name="facts")
    name = models.CharField(max_length=200)
    value = ExactJSONField()
    on_change = models.CharField(max_length=6, choices=OnChange.choices, default=OnChange.REPLAN)
    kind = models.CharField(max_length=10, choices=FactKind.choices, default=FactKind.VALUE)
    check_by = models.CharField(max_length=10, choices=FactCheck.choices, default=FactCheck.NONE)
    connection = models.ForeignKey(Connection, on_delete=models.PROTECT, null=True, related_name="+")
    path = models.CharField(max_length=500, blank=True)
    pointer = models.CharField(max_length=500, blank=True, help_text="a JSON Pointer (RFC 6901) into the reply")
    reviewed_value = ExactJSONField(null=True, help_text="what a renewed review was shown: compared with from then on")
    was_reviewed = models.BooleanField(default=False)
    last_value = ExactJSONField(null=True)
    last_status = models.CharField(max_length=11, choices=FactStatus.choices, default=FactStatus.UNCHECKED)
    last_fence = models.PositiveIntegerField(default=0, help_text="the lease whose worker checked it last")
    checked_at = models.DateTimeField(null=True)
    waived_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+")
    waived_reason = models.CharField(max_length=300, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["checkpoint", "name"], condition=models.Q(interrupt__isnull=True), name="one_fact_per_name"
            ),
            models.UniqueConstraint(
                fields=["interrupt", "name"],
                condition=models.Q(interrupt__isnull=False),
                name="one_fact_per_name_of_an_interrupt",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def relied_on(self) -> Any:
        """The value that the last review, or else the agent, relied on."""
        return self.reviewed_value if self.was_reviewed else self.value


class Continuation(models.Model):
    """The right to go on from a checkpoint; owned only by the worker that leased it, announced by whoever likes."""

    public_id = models.CharField(max_length=40, unique=True)
    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="continuations")
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="+", db_index=False)
    checkpoint = models.ForeignKey(Checkpoint, on_delete=models.PROTECT, related_name="+", db_index=False)
    status = models.CharField(max_length=12, choices=ContinuationStatus.choices)
    cause = models.CharField(max_length=20)
    priority = models.SmallIntegerField(default=50)
    not_before = models.DateTimeField()
    check_due_at = models.DateTimeField(null=True)
    check_token = models.CharField(max_length=40, blank=True, help_text="names the check that runs now")
    check_attempts = models.PositiveSmallIntegerField(default=0)
    checked_until = models.DateTimeField(null=True)
    fence = models.PositiveIntegerField(null=True, help_text="the lease that holds or held it")
    request_key = models.CharField(max_length=200, blank=True, help_text="Idempotency-Key of the claim")
    leased_at = models.DateTimeField(null=True)
    acknowledged_at = models.DateTimeField(null=True)
    effects_skipped = models.PositiveIntegerField(
        default=0, help_text="intends of its lease that were answered with the outcome an earlier lease had recorded"
    )
    void_reason = models.CharField(max_length=300, blank=True)
    of = models.ForeignKey("self", on_delete=models.PROTECT, null=True, related_name="+", help_text="what it replaces")
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


class Hold(models.Model):
    """A named reason why a continuation may not go on yet, with the group that can lift it."""

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


class Event(models.Model):
    """One move, append-only; ``digest`` covers the event and ``prev``, so that a changed or missing record is found.

    The row is the outbox too: it is written with the move, and ``feed`` gives it its place in the agent's feed later.
    """

    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="events", db_index=False)
    # Not checked by the database: the run's own is, and every event would lock the row of its agent once more.
    agent = models.ForeignKey(
        Agent, on_delete=models.PROTECT, null=True, related_name="+", db_index=False, db_constraint=False
    )
    seq = models.PositiveIntegerField()
    type = models.CharField(max_length=40)
    actor = models.CharField(max_length=300)
    at = models.DateTimeField()
    refs = ExactJSONField(help_text="ids and digests, never the bodies: those can be erased, this cannot")
    prev = models.CharField(max_length=68, blank=True)
    digest = models.CharField(max_length=68)
    announced_at = models.DateTimeField(null=True)
    announced_seq = models.BigIntegerField(null=True, help_text="its place in the agent's feed, from 1 without gaps")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "seq"], name="one_event_per_place_in_a_timeline"),
            models.UniqueConstraint(
                fields=["agent", "announced_seq"],
                condition=models.Q(announced_seq__isnull=False),
                name="one_event_per_place_in_a_feed",
            ),
        ]
        indexes = [
            models.Index(
                fields=["agent", "id"], condition=models.Q(announced_at__isnull=True), name="events_to_announce"
            )
        ]

    def __str__(self) -> str:
        return f"{self.seq} {self.type}"

    def covered(self) -> dict[str, Any]:
        """Return what the digest covers."""
        return {
            "seq": self.seq,
            "type": self.type,
            "actor": self.actor,
            "at": self.at.isoformat(timespec="microseconds"),
            "refs": self.refs,
            "prev": self.prev,
        }


class Feed(models.Model):
    """How far an agent's feed is numbered. Its lock orders the numberers, so that no reader is ever overtaken."""

    agent = models.OneToOneField(Agent, on_delete=models.PROTECT, primary_key=True, related_name="+")
    last_seq = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.agent_id}: {self.last_seq}"
