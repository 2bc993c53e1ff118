"""Step results that a worker recorded between two checkpoints, for a replay."""

from __future__ import annotations

from django.db import models

from ledger.exact_json import ExactJSONField
from runs.models.run import Run


class StepResult(models.Model):
    """The result of one step after checkpoint ``after``, by its name; ``place`` counts from 1 after each checkpoint."""

    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="steps", db_index=False)
    epoch = models.PositiveIntegerField()
    after = models.PositiveIntegerField(help_text="the number of the checkpoint that it follows")
    place = models.PositiveIntegerField()
    name = models.CharField(max_length=200)
    result = ExactJSONField()
    fence = models.PositiveIntegerField(help_text="the lease that recorded it")
    passed_fence = models.PositiveIntegerField(help_text="the last lease that replayed it")
    recorded_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "epoch", "after", "place"], name="one_step_per_place"),
            models.UniqueConstraint(fields=["run", "epoch", "after", "name"], name="one_step_per_name"),
        ]

    def __str__(self) -> str:
        return f"{self.place} {self.name}"
