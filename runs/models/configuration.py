"""The audit log of administration: a chain of digests over every change of people, agents, keys, queues and policies."""

from __future__ import annotations

from typing import Any

from django.db import models

from ledger.exact_json import ExactJSONField
from runs.models.agents import Agent
from runs.models.policies import Queue


class ConfigurationRecord(models.Model):
    """One change of the configuration; append-only. The digest covers ``prev`` too.

    ``doctor`` compares policies, effect rules and agents with their newest record. Secrets are in no record.
    """

    seq = models.PositiveIntegerField(unique=True)
    kind = models.CharField(max_length=20, help_text="what was changed: runs.configuration_history.KIND_LABELS")
    subject = models.BigIntegerField(help_text="the id of the row")
    action = models.CharField(max_length=20, help_text="created, changed, removed, or what else was done")
    content = ExactJSONField(
        help_text="the state after the change, or before a removal; of an agent its mode and effect rules"
    )
    before = ExactJSONField(null=True, help_text="the state before the change; null: there was none")
    name = models.CharField(max_length=300, blank=True, help_text="of the subject; empty in records of older versions")
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, null=True, related_name="+", db_index=False)
    queue = models.ForeignKey(Queue, on_delete=models.PROTECT, null=True, related_name="+", db_index=False)
    actor = models.CharField(max_length=300)
    at = models.DateTimeField()
    prev = models.CharField(max_length=68, blank=True)
    digest = models.CharField(max_length=68)

    class Meta:
        indexes = [
            models.Index(fields=["kind", "subject", "-seq"], name="records_of_a_configured_row"),
            models.Index(fields=["agent", "-seq"], name="records_of_an_agent"),
            models.Index(fields=["queue", "-seq"], name="records_of_a_queue"),
            models.Index(fields=["digest"], name="records_by_digest"),
        ]

    def __str__(self) -> str:
        return f"{self.seq} {self.kind} {self.subject} {self.action}"

    def covered(self) -> dict[str, Any]:
        """Return what the digest covers."""
        covered = {
            "seq": self.seq,
            "kind": self.kind,
            "subject": self.subject,
            "action": self.action,
            "content": self.content,
            "actor": self.actor,
            "at": self.at.isoformat(timespec="microseconds"),
            "prev": self.prev,
        }
        if not self.name:
            return covered
        added = {"before": self.before, "name": self.name, "agent": self.agent_id, "queue": self.queue_id}
        return covered | added


class ConfigurationHead(models.Model):
    """The end of the chain: one row, whose lock orders the transactions that append."""

    seq = models.PositiveIntegerField(default=0)
    digest = models.CharField(max_length=68, blank=True)

    def __str__(self) -> str:
        return f"{self.seq} {self.digest}"
