"""Events of a run, chained by digests, and the numbering of an agent's feed."""

from __future__ import annotations

from typing import Any

from django.db import models

from ledger.exact_json import ExactJSONField
from runs.models.agents import Agent
from runs.models.run import Run


class Event(models.Model):
    """One event, append-only. ``digest`` covers the event and ``prev``, so that a changed or missing event is detected.

    The row is also the outbox: it is written with the transition, and ``event_feed`` numbers it later.
    """

    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="events", db_index=False)
    # Without a database constraint, which would lock the agent's row for every event; the run's constraint suffices.
    agent = models.ForeignKey(
        Agent, on_delete=models.PROTECT, null=True, related_name="+", db_index=False, db_constraint=False
    )
    seq = models.PositiveIntegerField()
    type = models.CharField(max_length=40)
    actor = models.CharField(max_length=300)
    at = models.DateTimeField()
    refs = ExactJSONField(help_text="ids and digests, never the bodies: those can be erased, this cannot")
    row_digests = ExactJSONField(
        null=True,
        help_text="digests of the rows that the transition wrote; null: written by a version that recorded none",
    )
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
        covered = {
            "seq": self.seq,
            "type": self.type,
            "actor": self.actor,
            "at": self.at.isoformat(timespec="microseconds"),
            "refs": self.refs,
            "prev": self.prev,
        }
        return covered if self.row_digests is None else covered | {"row_digests": self.row_digests}


class Feed(models.Model):
    """The last number of an agent's feed. Its lock orders the transactions that assign numbers."""

    agent = models.OneToOneField(Agent, on_delete=models.PROTECT, primary_key=True, related_name="+")
    last_seq = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.agent_id}: {self.last_seq}"
