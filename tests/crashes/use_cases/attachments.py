"""Scenes of files that reviewers attach: on their way, arrived, given up, erased."""

from __future__ import annotations

from datetime import timedelta

from django.contrib.auth.models import User

from ledger import clock
from reviewqueue import permissions
from runs import attachments, file_storage
from runs.models import Attachment, Interrupt
from runs.states import FileStatus
from runs.use_cases import attach_file
from tests import builders
from tests.crashes.use_cases import Act, verb
from tests.pages.test_attachments import PDF, a_request, attach


def begin(interrupt: Interrupt, person: User) -> Attachment:
    sent = file_storage.spool_upload([PDF])
    with sent.file:
        return attach_file._begin(
            interrupt.pk,
            person,
            name="LT-2026.pdf",
            media_type="application/pdf",
            sent=sent,
            why_not=permissions.why_not_decide,
        )


@verb("runs.use_cases.attach_file._begin", another=True)
def an_attached_file_is_on_its_way() -> Act:
    ana, interrupt = builders.a_reviewer(), a_request()
    return lambda: begin(interrupt, ana)


@verb("runs.use_cases.attach_file._finish")
def an_attached_file_has_arrived() -> Act:
    ana, interrupt = builders.a_reviewer(), a_request()
    file = begin(interrupt, ana)
    return lambda: attach_file._finish(file.pk, interrupt.pk, ana, why_not=permissions.why_not_decide)


@verb("runs.attachments.mark_failed_attachment_for_deletion")
def an_attached_file_that_did_not_arrive_is_given_up() -> Act:
    file = begin(a_request(), builders.a_reviewer())
    return lambda: attachments.mark_failed_attachment_for_deletion(file.pk)


@verb("runs.attachments._claim_unwanted")
def an_attached_file_that_never_arrived_is_given_up_by_the_sweep() -> Act:
    before = clock.now() - attachments.BYTES_ARRIVE_WITHIN - timedelta(seconds=1)
    with builders.at_time(lambda: before):
        file = begin(a_request(), builders.a_reviewer())
    return lambda: attachments._claim_unwanted(file.pk)


@verb("runs.attachments._forget_bytes")
def the_bytes_of_an_attached_file_are_erased() -> Act:
    file = attach(a_request(), builders.a_reviewer())
    Attachment.objects.filter(pk=file.pk).update(status=FileStatus.UNWANTED)
    return lambda: attachments._forget_bytes(file.pk)
