"""Rows that belong to no run: who is alive, and (with the verbs that need them) people, agents, keys."""

from __future__ import annotations

from django.db import models


class Heartbeat(models.Model):
    """One row a worker: written by a task that went through its cluster, so a fresh time means that tasks are done."""

    worker = models.CharField(max_length=200, primary_key=True)
    beaten_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.worker} at {self.beaten_at:%H:%M:%S}"
