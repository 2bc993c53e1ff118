"""Interrupts with their schemas, assignees, comments and revisions; decisions and permits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q

from ledger.exact_json import ExactJSONField
from ledger.row_digests import CONTENT, FIXED, STATE, CoveredByPublicId
from runs.models.agents import Agent
from runs.models.policies import Policy, Queue
from runs.models.run import Checkpoint, Run
from runs.states import (
    VALID_DECISIONS,
    DecisionStatus,
    InterruptStatus,
    Kind,
    Risk,
)


class Schema(models.Model):
    """A JSON Schema of answers, stored once by its digest and never changed."""

    digest = models.CharField(max_length=68, unique=True)
    body = ExactJSONField()

    def __str__(self) -> str:
        return self.digest


class Interrupt(CoveredByPublicId, models.Model):
    """A durable request to people, or for a signal or a time: one row, without a process or connection.

    ``state_version`` identifies what a reviewer saw; ``content_digest`` covers it. The interrupts of one suspend share
    a checkpoint.
    """

    row_proposal: Any  # annotations of queries for lists, which leave out a long call
    proposal_length: int | None

    public_id = models.CharField(max_length=40, unique=True)
    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="interrupts", db_index=False)
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="+", db_index=False)
    checkpoint = models.ForeignKey(Checkpoint, on_delete=models.PROTECT, related_name="interrupts")
    epoch = models.PositiveIntegerField()
    key = models.CharField(max_length=200)
    request_digest = models.CharField(max_length=68)
    kind = models.CharField(max_length=8, choices=Kind.choices)
    reason = models.CharField(max_length=60)
    queue = models.ForeignKey(
        Queue,
        on_delete=models.PROTECT,
        null=True,
        related_name="interrupts",
        db_index=False,
        help_text="null: answered by a signal or a timer, not by people",
    )
    correlation = models.CharField(max_length=200, blank=True, help_text="of the signal that answers it")
    policy = models.ForeignKey(Policy, on_delete=models.PROTECT, related_name="+", db_index=False)
    external_id = models.CharField(max_length=300, blank=True)
    title = models.CharField(max_length=300)
    message = models.TextField(blank=True)
    proposal = ExactJSONField(null=True)
    call_digest = models.CharField(
        max_length=68, blank=True, help_text="of the proposed call, to find the same call in other interrupts"
    )
    as_proposed = ExactJSONField(null=True, help_text="the agent's own proposal, if a vote edited it")
    evidence = ExactJSONField(default=list)
    schema = models.ForeignKey(Schema, on_delete=models.PROTECT, null=True, related_name="+", db_index=False)
    verdicts = models.JSONField(default=list)
    metadata = models.JSONField(default=dict)
    content_digest = models.CharField(max_length=68)
    risk = models.CharField(max_length=6, choices=Risk.choices)
    risk_rank = models.PositiveSmallIntegerField(help_text="0 is the highest: the first sort key of the inbox")
    priority = models.SmallIntegerField(default=50)

    status = models.CharField(max_length=10, choices=InterruptStatus.choices)
    state_version = models.PositiveIntegerField(default=1)
    round = models.PositiveSmallIntegerField(default=1)
    quorum = models.PositiveSmallIntegerField(default=1, help_text="how many people must approve the same call")
    level = models.PositiveSmallIntegerField(default=0, help_text="the escalation level")
    deadline = models.DateTimeField()
    remind_at = models.DateTimeField(null=True, help_text="the time of the next reminder")
    sweep_after = models.DateTimeField(null=True, help_text="deferred by a failed sweep until then")
    on_expiry = ExactJSONField(help_text='{"do": ..., "verdict"?, "input"?, "arguments"?}')
    renews = models.ForeignKey("self", on_delete=models.PROTECT, null=True, related_name="+")
    renewed = models.BooleanField(
        default=False, help_text="a later interrupt replaces it, so its key can be used again"
    )
    claimed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+", db_index=False
    )
    claimed_until = models.DateTimeField(null=True)
    created_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True)
    trace_parent = models.CharField(max_length=55, null=True, help_text="W3C traceparent of its creation")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["run", "epoch", "key"], condition=Q(renewed=False), name="one_wait_per_key_of_an_epoch"
            ),
            models.CheckConstraint(
                condition=~Q(kind=Kind.APPROVAL) | Q(proposal__isnull=False), name="an_approval_has_a_proposal"
            ),
            models.CheckConstraint(
                condition=Q(kind=Kind.EVENT) ^ Q(correlation=""), name="a_signal_is_known_by_a_correlation"
            ),
            models.CheckConstraint(
                condition=Q(kind__in=[Kind.EVENT, Kind.TIMER]) | Q(queue__isnull=False),
                name="people_are_asked_in_a_queue",
            ),
            models.UniqueConstraint(
                fields=["agent", "correlation"],
                # A reopened interrupt has a later round, and its reopening must not fail because of this.
                condition=Q(status=InterruptStatus.WAITING, kind=Kind.EVENT, round=1),
                name="one_open_wait_per_correlation",
            ),
        ]
        indexes = [
            models.Index(fields=["deadline"], condition=Q(status=InterruptStatus.WAITING), name="waits_by_deadline"),
            models.Index(
                # One range for each list of the inbox and each of its filters (`queries/open_requests.py`).
                # With the creation time, the ages of all open requests are counted without their rows.
                fields=["queue", "agent", "reason", "risk_rank", "deadline", "id", "created_at"],
                condition=Q(status=InterruptStatus.WAITING),
                name="open_waits_by_group",
            ),
            models.Index(
                # The same ranges by age.
                fields=["queue", "agent", "reason", "risk_rank", "id"],
                condition=Q(status=InterruptStatus.WAITING),
                name="open_waits_by_group_and_age",
            ),
            models.Index(
                fields=["remind_at"],
                condition=Q(status=InterruptStatus.WAITING, remind_at__isnull=False),
                name="waits_by_their_reminder",
            ),
            models.Index(fields=["run", "status"], name="waits_of_a_run"),
            models.Index(
                fields=["agent", "call_digest"],
                condition=Q(status=InterruptStatus.WAITING) & ~Q(call_digest=""),
                name="open_waits_by_their_call",
            ),
            models.Index(
                fields=["claimed_by", "claimed_until"],
                condition=Q(status=InterruptStatus.WAITING),
                name="waits_by_their_claim",
            ),
            models.Index(fields=["queue", "status", "id"], name="waits_of_a_queue_by_status"),
            models.Index(fields=["queue", "agent", "run"], name="runs_behind_a_queue"),
            models.Index(fields=["agent", "status", "id"], name="waits_of_an_agent_by_status"),
            models.Index(
                fields=["queue", "status", "-closed_at", "-id"],
                condition=~Q(status=InterruptStatus.WAITING),
                name="ended_waits_of_a_queue",
            ),
            models.Index(
                fields=["agent", "status", "-closed_at", "-id"],
                condition=~Q(status=InterruptStatus.WAITING),
                name="ended_waits_of_an_agent",
            ),
        ]

    def __str__(self) -> str:
        return self.public_id

    covered_kind = "interrupt"
    #: Never change a tuple: the events of earlier versions cover exactly these columns.
    covered_parts: ClassVar[Mapping[str, tuple[str, ...]]] = {
        FIXED: (
            "public_id",
            "run_id",
            "agent_id",
            "checkpoint_id",
            "epoch",
            "key",
            "request_digest",
            "kind",
            "reason",
            "correlation",
            "policy_id",
            "quorum",
            "verdicts",
            "on_expiry",
            "risk",
            "external_id",
            "renews_id",
        ),
        CONTENT: ("title", "content_digest", "call_digest", "as_proposed"),
        STATE: ("status", "state_version", "round", "level", "queue_id"),
    }


class Assignee(models.Model):
    """A person who can decide an interrupt. Without assignees, every reviewer of its queue can."""

    interrupt = models.ForeignKey(Interrupt, on_delete=models.PROTECT, related_name="assignees", db_index=False)
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    released_at = models.DateTimeField(
        null=True, help_text="when it ended because the person lost the permission to decide"
    )

    class Meta:
        constraints = [models.UniqueConstraint(fields=["interrupt", "person"], name="a_person_is_assigned_once")]

    def __str__(self) -> str:
        return str(self.person)


class Comment(models.Model):
    """A comment of a person on an interrupt. Agents do not see it, and it changes no version."""

    interrupt = models.ForeignKey(Interrupt, on_delete=models.PROTECT, related_name="comments")
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    text = models.TextField()
    created_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.text[:60]


class Revision(models.Model):
    """What an interrupt showed before it was amended."""

    interrupt = models.ForeignKey(Interrupt, on_delete=models.PROTECT, related_name="revisions", db_index=False)
    state_version = models.PositiveIntegerField(help_text="the last version that showed it")
    title = models.CharField(max_length=300)
    message = models.TextField(blank=True)
    proposal = ExactJSONField(null=True)
    facts = ExactJSONField(default=list, help_text="name, value and on_change of each")
    deadline = models.DateTimeField()
    replaced_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["interrupt", "state_version"], name="one_revision_per_version"),
        ]

    def __str__(self) -> str:
        return f"version {self.state_version} of {self.interrupt_id}"


class Decision(CoveredByPublicId, models.Model):
    """One submitted answer, accepted or refused. ``by`` is NULL if no person decided."""

    public_id = models.CharField(max_length=40, unique=True)
    interrupt = models.ForeignKey(Interrupt, on_delete=models.PROTECT, related_name="decisions", db_index=False)
    round = models.PositiveSmallIntegerField()
    state_version = models.PositiveIntegerField()
    content_digest = models.CharField(max_length=68)
    by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+")
    queue = models.ForeignKey(
        Queue,
        on_delete=models.PROTECT,
        null=True,
        related_name="+",
        help_text="the queue in which it was given",
        db_index=False,
    )
    cause = models.CharField(max_length=20)
    door = models.CharField(max_length=4, help_text="page, api or rule; empty for the product itself", blank=True)
    signal = models.ForeignKey(
        "runs.Signal",
        on_delete=models.PROTECT,
        null=True,
        related_name="+",
        help_text="the signal that answered",
        db_index=False,
    )
    verdict = models.CharField(max_length=8, blank=True)
    input = ExactJSONField(null=True)
    arguments = ExactJSONField(null=True)
    message = models.TextField(blank=True)
    digest = models.CharField(max_length=68, help_text="of verdict, input, arguments and message")
    status = models.CharField(max_length=9, choices=DecisionStatus.choices)
    code = models.CharField(max_length=30, blank=True, help_text="why it was refused")
    closes = models.BooleanField(default=False)
    request_key = models.CharField(max_length=200, blank=True)
    created_at = models.DateTimeField()
    delivered_at = models.DateTimeField(null=True, help_text="when a claim first returned the answer to a worker")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["interrupt"],
                condition=Q(status=DecisionStatus.ACCEPTED, closes=True),
                name="one_accepted_closing_decision_per_interrupt",
            ),
            models.UniqueConstraint(
                fields=["interrupt", "by"],
                condition=Q(status__in=sorted(VALID_DECISIONS)),
                name="one_standing_vote_per_person",
            ),
            models.UniqueConstraint(
                fields=["by", "interrupt", "request_key"],
                condition=~Q(request_key=""),
                name="one_decision_per_request_of_a_person",
            ),
        ]
        indexes = [models.Index(fields=["interrupt", "status"], name="decisions_of_an_interrupt")]

    def __str__(self) -> str:
        return f"{self.verdict} ({self.status})"

    covered_kind = "decision"
    #: Never change a tuple: the events of earlier versions cover exactly these columns.
    covered_parts: ClassVar[Mapping[str, tuple[str, ...]]] = {
        FIXED: (
            "public_id",
            "interrupt_id",
            "round",
            "state_version",
            "content_digest",
            "by_id",
            "queue_id",
            "cause",
            "door",
            "signal_id",
            "verdict",
            "digest",
            "code",
            "request_key",
            "created_at",
        ),
        STATE: ("status", "closes"),
    }


class Permit(CoveredByPublicId, models.Model):
    """The permission of an accepted approval: the digest of the exact call, used once, with an expiry time.

    Whether it is used is recorded in the ledger (``Effect.permit_ref``), in one place.
    """

    public_id = models.CharField(max_length=40, unique=True)
    decision = models.OneToOneField(Decision, on_delete=models.PROTECT, related_name="permit")
    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="permits")
    call = ExactJSONField(help_text='{"name": ..., "arguments": ...}')
    digest = models.CharField(max_length=68)
    valid_until = models.DateTimeField()
    void_at = models.DateTimeField(null=True)
    void_reason = models.CharField(max_length=300, blank=True)

    def __str__(self) -> str:
        return self.public_id

    covered_kind = "permit"
    #: Never change a tuple: the events of earlier versions cover exactly these columns.
    covered_parts: ClassVar[Mapping[str, tuple[str, ...]]] = {
        FIXED: ("public_id", "decision_id", "run_id", "digest", "valid_until"),
        STATE: ("void_at", "void_reason"),
    }
