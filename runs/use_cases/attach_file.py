"""A reviewer attaches a file to an open request, and people and workers download a verified file later.

As for checkpoint files, the bytes are written between two transactions: the first inserts the row, the second records it
in the timeline if the request is still open.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from django.contrib.auth.models import AbstractUser

from ledger import clock
from ledger.actors import person_actor
from ledger.errors import Busy, NotFound, Refusal
from ledger.transactions import use_case
from runs.attachment_content import clean_name, recognize
from runs.attachment_scan import scan_file
from runs.attachments import (
    MAX_ATTACHMENTS,
    create_attachment,
    find_attachment,
    mark_failed_attachment_for_deletion,
    offer_attachment,
)
from runs.decisions import answer_schema, closed_refusal, find_winning_decision
from runs.errors import AttachmentRefused, FileDamaged, SnapshotErased
from runs.file_storage import NotStored, SpooledFile, read_stored_file, spool_upload, store_file
from runs.locks import lock_run_and_interrupt
from runs.models import Attachment, Interrupt, Run
from runs.run_status import save_status
from runs.schemas.attachments import MAX_BYTES, AttachmentRule, list_rules
from runs.states import FileStatus, InterruptStatus
from runs.timeline import record_event

logger = logging.getLogger(__name__)

WhyNot = Callable[[AbstractUser, Interrupt], Refusal | None]


@dataclass(frozen=True, kw_only=True)
class AttachedFile:
    """An attachment. ``created`` False: the person had attached these bytes to the request before."""

    attachment: Attachment
    created: bool


@dataclass(frozen=True, kw_only=True)
class DownloadedAttachment:
    """An attachment and its verified bytes. The caller closes them."""

    attachment: Attachment
    bytes: SpooledFile


def check_upload(interrupt: Interrupt, person: AbstractUser, *, why_not: WhyNot, size: int = 0) -> None:
    """Refuse a file before its bytes are read. ``attach_file`` repeats this under the run's lock."""
    _refuse_closed(interrupt, person, why_not)
    _rules_of(interrupt)
    if size > MAX_BYTES:
        raise AttachmentRefused(f"The file must have at most {MAX_BYTES} bytes, not {size}.")


def attach_file(
    interrupt: Interrupt, person: AbstractUser, *, name: str, sent: SpooledFile, why_not: WhyNot
) -> AttachedFile:
    """Store a file for an answer of this person. The same bytes again return the first attachment.

    ``why_not`` says why the person cannot decide the request. Raises that refusal, how the request was closed,
    ``AttachmentRefused``, and ``Busy`` if the storage or the scan fails.
    """
    media_type = _checked_type(interrupt, sent)
    if (
        find_attachment(interrupt, person.pk, sent.digest) is None
    ):  # its bytes were scanned when they were first attached
        _refuse_too_many(interrupt, person)
        scan_file(sent)
    kept = clean_name(name, media_type)
    created = _begin(interrupt.pk, person, name=kept, media_type=media_type, sent=sent, why_not=why_not)
    if created.status != FileStatus.ARRIVING:
        return AttachedFile(attachment=created, created=False)
    try:
        store_file(created.stored_as, sent)
        finished = _finish(created.pk, interrupt.pk, person, why_not=why_not)
    except OSError as error:
        logger.warning("The storage did not take an attachment of %s: %s", interrupt.public_id, error)
        mark_failed_attachment_for_deletion(created.pk)
        raise Busy("The file storage is not available, so nothing was stored. Attach the file again.") from error
    except Refusal:
        mark_failed_attachment_for_deletion(created.pk)
        raise
    if finished.pk != created.pk:
        mark_failed_attachment_for_deletion(created.pk)
    return AttachedFile(attachment=finished, created=finished.pk == created.pk)


def _rules_of(interrupt: Interrupt) -> list[AttachmentRule]:
    rules = list_rules(answer_schema(interrupt))
    if not rules:
        raise AttachmentRefused("This request asks for no file.")
    return rules


def _checked_type(interrupt: Interrupt, sent: SpooledFile) -> str:
    rules = _rules_of(interrupt)
    if sent.size == 0:
        raise AttachmentRefused("The file is empty.")
    allowed = sorted({kind for rule in rules for kind in rule.media_types})
    media_type = recognize(sent.file, sent.size)
    if not media_type:
        raise AttachmentRefused(f"The content of the file is not, or not only, of the type {' or '.join(allowed)}.")
    wrong = [rule.problem(media_type=media_type, size=sent.size) for rule in rules]
    if all(wrong):
        raise AttachmentRefused(f"The file {wrong[0]}.")
    return media_type


@use_case
def _begin(
    interrupt_pk: int, person: AbstractUser, *, name: str, media_type: str, sent: SpooledFile, why_not: WhyNot
) -> Attachment:
    _, interrupt = _lock_open(interrupt_pk, person, why_not)
    known = find_attachment(interrupt, person.pk, sent.digest)
    if known is not None:
        return known
    _refuse_too_many(interrupt, person)
    now = clock.now()
    return create_attachment(
        interrupt, person.pk, name=name, media_type=media_type, digest=sent.digest, size=sent.size, now=now
    )


def _refuse_too_many(interrupt: Interrupt, person: AbstractUser) -> None:
    if Attachment.objects.filter(interrupt=interrupt, person=person.pk).count() >= MAX_ATTACHMENTS:
        raise AttachmentRefused(f"You have attached {MAX_ATTACHMENTS} files to this request; more are not stored.")


@use_case
def _finish(pk: int, interrupt_pk: int, person: AbstractUser, *, why_not: WhyNot) -> Attachment:
    run, interrupt = _lock_open(interrupt_pk, person, why_not)
    attachment = Attachment.objects.get(pk=pk)
    known = find_attachment(interrupt, person.pk, attachment.digest)
    if known is not None:
        return known
    now = clock.now()
    if not offer_attachment(run, attachment, now=now):
        raise Busy("The upload took too long and was discarded. Attach the file again.")
    record_event(
        run,
        "attachment.added",
        actor=person_actor(person),
        at=now,
        interrupt=interrupt.public_id,
        attachment=attachment.public_id,
        digest=attachment.digest,
        size=attachment.size,
        media_type=attachment.media_type,
    )
    save_status(run, now)
    return attachment


def _lock_open(interrupt_pk: int, person: AbstractUser, why_not: WhyNot) -> tuple[Run, Interrupt]:
    run, interrupt = lock_run_and_interrupt(interrupt_pk)
    _refuse_closed(interrupt, person, why_not)
    return run, interrupt


def _refuse_closed(interrupt: Interrupt, person: AbstractUser, why_not: WhyNot) -> None:
    refusal = why_not(person, interrupt)
    if refusal is not None:
        raise refusal
    if interrupt.status != InterruptStatus.WAITING:
        raise closed_refusal(interrupt, find_winning_decision(interrupt))


def download_attachment(interrupt: Interrupt, digest: str, *, reader: int | None) -> DownloadedAttachment:
    """Return a file that was attached to a request, its bytes verified by digest and size.

    ``reader`` is the primary key of a person, ``None`` for an agent. A file that no decision names is only for the person
    who attached it. Several people can attach the same bytes; a copy that a decision names comes first.

    Raises ``NotFound``, ``SnapshotErased``, ``FileDamaged``, and ``Busy`` if the storage fails.
    """
    found = Attachment.objects.filter(interrupt=interrupt, digest=digest).exclude(added_at=None)
    kept = found.filter(status=FileStatus.KEPT).order_by("id").first()
    attachment = kept or found.filter(status=FileStatus.OFFERED, person=reader).order_by("id").first()
    if attachment is None:
        if found.exclude(status=FileStatus.OFFERED).exists():
            raise SnapshotErased("This file was erased after its retention period.", digest=digest)
        raise NotFound
    try:
        read = spool_upload(read_stored_file(attachment.stored_as, most=attachment.size))
    except NotStored:
        raise FileDamaged("This file is not in the storage.", digest=digest, size=attachment.size) from None
    except OSError as error:
        logger.warning("The storage does not give an attachment of %s: %s", interrupt.public_id, error)
        raise Busy("The file storage is not available. Repeat the request.") from error
    if read.digest != digest:
        read.file.close()
        raise FileDamaged("The stored file does not match its digest.", digest=digest, size=attachment.size)
    return DownloadedAttachment(attachment=attachment, bytes=read)
