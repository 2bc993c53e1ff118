"""Queues, which hold interrupts for the people who can decide them, and policies, the rules of each reason."""

from __future__ import annotations

from datetime import timedelta

from django.contrib.auth.models import Group
from django.db import models

from runs.models.agents import Agent
from runs.states import OnExpiry, OnReject, Risk, RuleRisk, SecondFactor


class Queue(models.Model):
    """A queue of interrupts. Reviewers and leads decide, leads also extend and take over claims, auditors only read."""

    slug = models.SlugField(max_length=60, unique=True)
    owner = models.ForeignKey(Group, on_delete=models.PROTECT, related_name="+")
    reviewers = models.ForeignKey(Group, on_delete=models.PROTECT, related_name="+")
    leads = models.ForeignKey(Group, on_delete=models.PROTECT, related_name="+")
    auditors = models.ForeignKey(Group, on_delete=models.PROTECT, related_name="+")
    accepts_new = models.BooleanField(default=True)

    def __str__(self) -> str:
        return self.slug


def default_expiries() -> list[str]:
    """Return the default of ``on_expiry_allowed``."""
    return [OnExpiry.CANCEL, OnExpiry.FAIL, OnExpiry.RESUME, OnExpiry.DEFAULT, OnExpiry.ESCALATE]


class Policy(models.Model):
    """The rules of one reason, for one agent or for all. Rows are versions and never edited; an open interrupt keeps
    its own.

    A request can only be stricter than its policy; otherwise it is refused as ``policy_refuses`` with the rule's name.
    """

    reason = models.CharField(max_length=60)
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, null=True, related_name="policies")
    version = models.PositiveIntegerField(default=1)
    queue = models.ForeignKey(Queue, on_delete=models.PROTECT, null=True, related_name="+", help_text="the default")
    queues = models.JSONField(default=list, help_text="slugs that an agent can choose besides the default queue")
    any_queue = models.BooleanField(default=False, help_text="an agent can choose any queue that accepts new requests")
    deadline_min = models.DurationField(default=timedelta(seconds=1))
    deadline_default = models.DurationField(default=timedelta(days=2))
    deadline_max = models.DurationField(default=timedelta(days=90))
    on_expiry = models.CharField(max_length=8, choices=OnExpiry.choices, default=OnExpiry.CANCEL)
    on_expiry_allowed = models.JSONField(default=default_expiries)
    default_may_approve = models.BooleanField(default=False)
    escalate_to = models.ForeignKey(Queue, on_delete=models.PROTECT, null=True, related_name="+")
    escalate_wait = models.DurationField(default=timedelta(days=1), help_text="the deadline of the next queue")
    escalate_further = models.JSONField(
        default=list, help_text='the queues after that one, in order: [{"queue": slug, "seconds": ...}]'
    )
    remind_before = models.JSONField(default=list, help_text="seconds before the deadline at which people are reminded")
    pause_stops_deadline = models.BooleanField(default=False, help_text="whether a pause of the run stops the deadline")
    then = models.CharField(max_length=8, default=OnExpiry.CANCEL, help_text="after the last queue: cancel or fail")
    on_reject = models.CharField(max_length=6, choices=OnReject.choices, default=OnReject.RESUME)
    require_reason = models.BooleanField(
        default=False, help_text="whether a rejection, or declining to answer, needs a reason"
    )
    second_factor = models.CharField(
        max_length=9,
        choices=SecondFactor.choices,
        default=SecondFactor.NEVER,
        help_text="which decisions need a second factor of their own",
    )
    standing_rules = models.CharField(
        max_length=6,
        choices=RuleRisk.choices,
        default=RuleRisk.NEVER,
        help_text="the highest risk of requests that a lead's standing rule can decide",
    )
    self_review = models.BooleanField(default=False, help_text="whether the run's initiator can decide")
    quorum = models.PositiveSmallIntegerField(default=1, help_text="how many people must approve the same call")
    risk_floor = models.CharField(max_length=6, choices=Risk.choices, default=Risk.LOW)
    permit_ttl = models.DurationField(default=timedelta(hours=24))
    freshness = models.DurationField(default=timedelta(minutes=15), help_text="how long a check of the facts is valid")
    undo = models.DurationField(
        default=timedelta(seconds=5), help_text="how long an answer given on a page can be undone"
    )
    claim_time = models.DurationField(default=timedelta(minutes=15))
    max_rounds = models.PositiveSmallIntegerField(default=5)
    expire_paused = models.DurationField(default=timedelta(days=7), help_text="how long a run can stay paused")
    expire_blocked = models.DurationField(default=timedelta(days=7), help_text="how long a run can stay on hold")
    expire_revalidating = models.DurationField(
        default=timedelta(days=7), help_text="how long the facts of a run can stay unchecked"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["reason", "agent", "version"], name="one_policy_per_version_of_an_agents_reason"
            ),
            models.UniqueConstraint(
                fields=["reason", "version"], condition=models.Q(agent__isnull=True), name="one_policy_per_version"
            ),
        ]
        verbose_name_plural = "policies"

    def __str__(self) -> str:
        return f"{self.reason} {self.version}"
