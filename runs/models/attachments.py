"""Files that people attach to a request, as evidence for their answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from django.conf import settings
from django.db import models

from ledger.row_digests import FIXED, CoveredByPublicId
from runs.models.interrupts import Interrupt
from runs.models.run import Run
from runs.states import FileStatus


class Attachment(CoveredByPublicId, models.Model):
    """One attached file, in Django's storage. The row stays when the bytes are erased.

    ``added_at`` is set with the event that records the file; until then the file is not complete.
    """

    public_id = models.CharField(max_length=40, unique=True)
    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="attachments", db_index=False)
    interrupt = models.ForeignKey(Interrupt, on_delete=models.PROTECT, related_name="attachments")
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    name = models.CharField(max_length=150, help_text="of the file, without what could disguise it")
    media_type = models.CharField(max_length=60, help_text="by its content")
    size = models.PositiveBigIntegerField(help_text="in bytes")
    digest = models.CharField(max_length=71, help_text="sha256: and the SHA-256 of the bytes")
    stored_as = models.CharField(max_length=200, unique=True)
    status = models.CharField(max_length=8, choices=FileStatus.choices)
    created_at = models.DateTimeField()
    added_at = models.DateTimeField(null=True)
    erased_at = models.DateTimeField(null=True)
    sweep_after = models.DateTimeField(null=True, help_text="deferred by a failed sweep until then")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["interrupt", "person", "digest"],
                condition=models.Q(status__in=["offered", "kept"]),
                name="one_attachment_per_file_of_a_person",
            ),
        ]
        indexes = [
            models.Index(fields=["run", "status"], name="attachments_of_a_run"),
            models.Index(
                fields=["status", "id"],
                condition=models.Q(status__in=["arriving", "offered", "unwanted"]),
                name="attachments_that_may_go",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.digest}"

    covered_kind = "attachment"
    #: Never change a tuple: the events of earlier versions cover exactly these columns.
    covered_parts: ClassVar[Mapping[str, tuple[str, ...]]] = {
        FIXED: ("public_id", "interrupt_id", "person_id", "name", "media_type", "size", "digest", "added_at"),
    }
