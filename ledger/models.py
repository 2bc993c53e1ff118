"""The effect ledger's tables: effects by deterministic key, the reports about them, and orders to perform them again.

Foreign keys point only at Django's users and groups, because the ledger does not know runs. ``scope`` is the run's id.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import models

from ledger.exact_json import ExactJSONField
from ledger.row_digests import FIXED, STATE, CoveredByPublicId, digest_row_part
from ledger.states import EffectStatus, InFlight, Repeat


class Effect(CoveredByPublicId, models.Model):
    """One external action. ``attempt`` counts its attempts; ``fence`` is the lease that began the last one."""

    row_call: Any  # these three are annotations of queries for lists, which leave out long texts
    row_receipt: Any
    receipt_length: int

    public_id = models.CharField(max_length=40, unique=True)
    scope = models.CharField(max_length=40)
    scope_epoch = models.PositiveIntegerField(default=1)
    key = models.CharField(max_length=200)
    name = models.CharField(max_length=200)
    call = ExactJSONField(help_text='{"name": ..., "arguments": ...}, exactly as sent')
    call_digest = models.CharField(max_length=68)
    status = models.CharField(max_length=12, choices=EffectStatus.choices)
    attempt = models.PositiveIntegerField(default=1)
    fence = models.PositiveIntegerField()
    request_key = models.CharField(max_length=200, blank=True, help_text="Idempotency-Key of the request that began it")
    repeat = models.CharField(max_length=8, choices=Repeat.choices, default=Repeat.NEVER)
    stable_key = models.BooleanField(default=True, help_text="False: if its step runs again, it uses another key")
    compensation = ExactJSONField(null=True, help_text='{"name": ..., "arguments": ...}: the compensating call')
    compensate_on = models.JSONField(default=list, help_text="the ends of the run after which it is compensated")
    undoes = models.ForeignKey("self", on_delete=models.PROTECT, null=True, related_name="undos")
    undoes_attempt = models.PositiveIntegerField(null=True, help_text="the attempt of that effect which it compensates")
    undo_waived_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.PROTECT,
        null=True,
        related_name="+",
        help_text="the person who waived the compensation",
    )
    undo_waived_reason = models.CharField(max_length=300, blank=True)
    in_flight = models.CharField(max_length=7, choices=InFlight.choices, default=InFlight.AWAIT)
    cancel_asked_at = models.DateTimeField(
        null=True, help_text="if it was applied despite the cancel, it is compensated"
    )
    probe = ExactJSONField(
        null=True, help_text="where an unknown outcome is looked up, and which values mean applied or failed"
    )
    probe_due_at = models.DateTimeField(null=True)
    probe_token = models.CharField(max_length=40, blank=True, help_text="identifies the current probe")
    probe_tries = models.PositiveSmallIntegerField(default=0)
    settle_by = models.DateTimeField(null=True, help_text="awaited across a suspend until then, unknown afterwards")
    permit_ref = models.CharField(max_length=40, null=True)
    owner = models.ForeignKey(
        Group, on_delete=models.PROTECT, related_name="+", help_text="resolves an unknown outcome"
    )
    receipt = ExactJSONField(default=None, help_text="the receiver's response; JSON null without one")
    error = models.TextField(blank=True)
    retryable = models.BooleanField(default=False)
    created_at = models.DateTimeField()
    begun_at = models.DateTimeField(null=True, help_text="when its last attempt began; compensations run newest first")
    changed_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["scope", "key"], name="one_effect_per_key_of_a_run"),
            models.UniqueConstraint(
                fields=["undoes", "undoes_attempt"],
                condition=models.Q(undoes__isnull=False),
                name="one_undo_per_try_of_an_effect",
            ),
            models.UniqueConstraint(
                fields=["permit_ref"], condition=models.Q(permit_ref__isnull=False), name="a_permit_is_spent_once"
            ),
            models.CheckConstraint(
                condition=models.Q(status__in=EffectStatus.values), name="an_effect_has_a_known_status"
            ),
        ]
        indexes = [
            models.Index(
                fields=["owner", "created_at"],
                condition=models.Q(status=EffectStatus.UNKNOWN),
                name="unknown_effects_of_an_owner",
            ),
            models.Index(
                fields=["settle_by"],
                condition=models.Q(status=EffectStatus.INTENDED, settle_by__isnull=False),
                name="awaited_effects_by_their_end",
            ),
            models.Index(
                fields=["probe_due_at"],
                condition=models.Q(status=EffectStatus.UNKNOWN, probe_due_at__isnull=False),
                name="unknown_effects_to_look_up",
            ),
            models.Index(fields=["scope", "status"], name="effects_of_a_run_by_status"),
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.key} ({self.status})"

    covered_kind = "effect"
    #: Never change a tuple: the events of earlier versions cover exactly these columns.
    covered_parts: ClassVar[Mapping[str, tuple[str, ...]]] = {
        FIXED: (
            "public_id",
            "scope",
            "key",
            "name",
            "call_digest",
            "repeat",
            "stable_key",
            "compensation",
            "compensate_on",
            "undoes_id",
            "undoes_attempt",
            "probe",
            "owner_id",
            "created_at",
        ),
        STATE: (
            "status",
            "attempt",
            "scope_epoch",
            "fence",
            "request_key",
            "permit_ref",
            "receipt",
            "error",
            "retryable",
        ),
    }


class EffectReport(models.Model):
    """One statement about an attempt, append-only: a worker's report, a probe's result or an owner's resolution."""

    effect = models.ForeignKey(Effect, on_delete=models.PROTECT, related_name="reports")
    attempt = models.PositiveIntegerField()
    status = models.CharField(max_length=12)
    by = models.CharField(max_length=300, help_text="the actor, such as agent:purchasing or person:ana@example.org")
    at = models.DateTimeField()
    body = ExactJSONField(default=None)

    def __str__(self) -> str:
        return f"{self.status} by {self.by}"

    covered_parts: ClassVar[Mapping[str, tuple[str, ...]]] = {FIXED: ("attempt", "status", "by", "at", "body")}

    @property
    def covered_as(self) -> str:
        return f"report:{self.effect.public_id}:{digest_row_part(self, FIXED)}"


class Order(models.Model):
    """A person's order to perform an effect again. One attempt uses it. The only exception to "never twice"."""

    effect = models.ForeignKey(Effect, on_delete=models.PROTECT, related_name="orders")
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    reason = models.TextField()
    ordered_at = models.DateTimeField()
    used_by_attempt = models.PositiveIntegerField(null=True, help_text="0: withdrawn before an attempt used it")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["effect"], condition=models.Q(used_by_attempt__isnull=True), name="one_unused_order_per_effect"
            )
        ]

    def __str__(self) -> str:
        return f"again, by {self.person}: {self.reason}"
