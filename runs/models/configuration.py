"""The history of the configuration: a chain of digests over policies, effect rules and agents."""

from __future__ import annotations

from typing import Any

from django.db import models

from ledger.exact_json import ExactJSONField


class ConfigurationRecord(models.Model):
    """One change of a policy version, effect rule or agent; append-only. The digest covers ``prev`` too."""

    seq = models.PositiveIntegerField(unique=True)
    kind = models.CharField(max_length=20, help_text="policy, effect_rule or agent")
    subject = models.BigIntegerField(help_text="the id of the row")
    action = models.CharField(max_length=8, help_text="created, changed or removed")
    content = ExactJSONField(help_text="the row's columns; for an agent its mode and effect rules")
    actor = models.CharField(max_length=300)
    at = models.DateTimeField()
    prev = models.CharField(max_length=68, blank=True)
    digest = models.CharField(max_length=68)

    class Meta:
        indexes = [models.Index(fields=["kind", "subject", "-seq"], name="records_of_a_configured_row")]

    def __str__(self) -> str:
        return f"{self.seq} {self.kind} {self.subject} {self.action}"

    def covered(self) -> dict[str, Any]:
        """Return what the digest covers."""
        return {
            "seq": self.seq,
            "kind": self.kind,
            "subject": self.subject,
            "action": self.action,
            "content": self.content,
            "actor": self.actor,
            "at": self.at.isoformat(timespec="microseconds"),
            "prev": self.prev,
        }


class ConfigurationHead(models.Model):
    """The end of the chain: one row, whose lock orders the transactions that append."""

    seq = models.PositiveIntegerField(default=0)
    digest = models.CharField(max_length=68, blank=True)

    def __str__(self) -> str:
        return f"{self.seq} {self.digest}"
