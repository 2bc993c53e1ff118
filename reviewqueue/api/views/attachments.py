"""Files that reviewers attach to a request: sent by a reviewer, read by those who see the request and by its agent."""

from __future__ import annotations

from django.http import FileResponse
from rest_framework.request import Request
from rest_framework.response import Response

from ledger.errors import Busy, Refusal
from reviewqueue import permissions, resume_gateway
from reviewqueue.api.authentication import caller_of, person_of
from reviewqueue.api.base_view import (
    BOTH,
    BYTES,
    CLOSED,
    PERSON,
    ApiView,
    Operation,
    text_parameter,
)
from reviewqueue.api.binary_bodies import acquire_slot, asked_digest, drain_rest, guard_bytes, pieces_of
from reviewqueue.api.downloads import send_attachment
from reviewqueue.api.problems import MalformedRequest
from reviewqueue.api.responses.interrupts import AttachmentResponse
from reviewqueue.api.scoped_querysets import find_interrupt
from runs.errors import DigestMismatch
from runs.file_storage import spool_upload
from runs.schemas.attachments import MAX_BYTES
from runs.use_cases.attach_file import AttachedFile, attach_file, check_upload, download_attachment

NAME = text_parameter("name", "Name of the file. Its type is found by its content.")


class AttachmentsView(ApiView):
    """The files of an interrupt."""

    def guard(self, request: Request) -> None:
        """Leave the bytes to `post`, which reads them piece by piece."""

    @Operation(
        id="attach_file",
        summary="Attach a file to an interrupt",
        description="For a text with `format: attachment` of the schema: the answer names the file by its `digest`. "
        "PDF, PNG and JPEG are accepted where the schema allows them. The same bytes again return the first attachment. "
        "With `Content-Digest` they are compared as they arrive; a chunked body must have it.",
        who=PERSON,
        request=BYTES,
        responses={201: AttachmentResponse, 200: AttachmentResponse},
        refusals=("not_found", "self_review", "attachment_refused", "digest_mismatch", *CLOSED),
        query=(NAME,),
    )
    def post(self, request: Request, interrupt_id: str) -> Response:
        try:
            attached = self._receive(request, interrupt_id)
        except (Busy, MalformedRequest):
            raise  # no slot is free for reading the rest, or the end of the body is unknown
        except Refusal:
            drain_rest(request)
            raise
        return Response(AttachmentResponse.serialize(attached.attachment), status=201 if attached.created else 200)

    def _receive(self, request: Request, interrupt_id: str) -> AttachedFile:
        person = person_of(request)
        query = self.validated_query(request)
        stated = asked_digest(request)
        guard_bytes(request, most=MAX_BYTES)
        interrupt = resume_gateway.get_visible_interrupt(person, interrupt_id)
        why_not = permissions.why_not_decide
        check_upload(interrupt, person, why_not=why_not)
        with acquire_slot():
            try:
                sent = spool_upload(pieces_of(request, most=MAX_BYTES))
            except OSError as error:  # the sender is gone, or this machine has no disk space left
                raise Busy("The file did not arrive completely. Send it again.") from error
            with sent.file:
                if stated and stated != sent.digest:
                    message = f"The received bytes have the digest {sent.digest}."
                    raise DigestMismatch(message, digest=sent.digest, size=sent.size)
                return attach_file(interrupt, person, name=query.get("name", ""), sent=sent, why_not=why_not)


class AttachmentView(ApiView):
    """One file of an interrupt."""

    @Operation(
        id="read_attachment",
        summary="Get an attached file",
        description="The bytes are verified before the first one is sent. A file that no answer names "
        "yet is only for the person who attached it.",
        who=BOTH,
        responses={200: BYTES},
        refusals=("not_found", "snapshot_erased", "file_spoilt"),
    )
    def get(self, request: Request, interrupt_id: str, digest: str) -> FileResponse:
        caller = caller_of(request)
        self.validated_query(request)
        interrupt = find_interrupt(caller, interrupt_id)
        with acquire_slot():
            found = download_attachment(interrupt, digest, reader=None if caller.person is None else caller.person.pk)
        return send_attachment(found)
