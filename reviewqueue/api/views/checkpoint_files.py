"""The file of a checkpoint: opaque bytes, streamed in by the worker that commits it, and out to one that continues."""

from __future__ import annotations

from django.conf import settings
from django.http import FileResponse
from rest_framework.request import Request
from rest_framework.response import Response

from ledger.errors import Busy, Refusal
from reviewqueue.api.authentication import worker_of
from reviewqueue.api.base_view import AGENT, BYTES, UNDER_LEASE, ApiView, Operation, lease_token
from reviewqueue.api.binary_bodies import (
    MEDIA_TYPE,
    acquire_slot,
    asked_digest,
    content_digest_header,
    drain_rest,
    guard_bytes,
    pieces_of,
)
from reviewqueue.api.problems import MalformedRequest
from reviewqueue.api.responses.runs import ReceivedFile, ReceivedFileResponse
from runs.errors import DigestMismatch
from runs.file_storage import PIECE, SpooledFile, spool_upload
from runs.use_cases import transfer_file


class CheckpointFileView(ApiView):
    """The file of one checkpoint."""

    def guard(self, request: Request) -> None:
        """Leave a file's bytes to `put`, which reads them piece by piece."""
        if request.method != "PUT":
            super().guard(request)

    @Operation(
        id="read_file",
        summary="Get the file of a checkpoint",
        description="The bytes are verified before the first one is sent. If the stored bytes are missing or changed, "
        "the call is refused with `file_spoilt`, and a run that would continue from them is held for its owner. A file "
        "is kept as long as the state.",
        who=AGENT,
        responses={200: BYTES},
        refusals=("not_found", "snapshot_erased", "file_spoilt"),
    )
    def get(self, request: Request, run_id: str, number: int) -> FileResponse:
        agent = worker_of(request)
        self.validated_query(request)
        with acquire_slot():
            fetched = transfer_file.download_file(agent=agent, run_id=run_id, number=number)
        response = FileResponse(
            fetched.bytes.file, as_attachment=True, filename=f"{run_id}-{number}.bin", content_type=MEDIA_TYPE
        )
        response.block_size = PIECE
        response["Content-Digest"] = content_digest_header(fetched.file.digest)
        response["ETag"] = f'"{fetched.file.digest}"'
        return response

    @Operation(
        id="offer_file",
        summary="Send the file of the next checkpoint",
        description="Opaque bytes, sent before their checkpoint: the next one that this lease commits. "
        "Other bytes sent before that replace them; the same bytes again are recognized, also afterwards. With "
        "`Content-Digest` they are compared as they arrive. A chunked body, without a length, must have that header: a "
        "transfer that broke off would look complete.",
        who=AGENT,
        request=BYTES,
        responses={201: ReceivedFileResponse, 200: ReceivedFileResponse},
        refusals=(*UNDER_LEASE, "stale_version", "digest_mismatch"),
        lease=True,
    )
    def put(self, request: Request, run_id: str, number: int) -> Response:
        try:
            offered = self._receive(request, run_id, number)
        except (Busy, MalformedRequest):
            raise  # no slot is free for reading the rest, or the end of the body is unknown
        except Refusal:
            drain_rest(request)
            raise
        shown = ReceivedFileResponse.serialize(ReceivedFile(number=number, file=offered.file))
        return Response(shown, status=201 if offered.created else 200)

    def _receive(self, request: Request, run_id: str, number: int) -> transfer_file.UploadedFile:
        agent, limit = worker_of(request), settings.CHECKPOINT_FILE_BYTES
        self.validated_query(request)
        token, stated = lease_token(request), asked_digest(request)
        guard_bytes(request, most=limit)
        transfer_file.check_upload(agent=agent, run_id=run_id, token=token, number=number)
        with acquire_slot():
            sent = _spooled(request, limit=limit)
            with sent.file:
                if stated and stated != sent.digest:
                    raise DigestMismatch(
                        f"The received bytes have the digest {sent.digest}.", digest=sent.digest, size=sent.size
                    )
                return transfer_file.upload_file(agent=agent, run_id=run_id, token=token, number=number, sent=sent)


def _spooled(request: Request, *, limit: int) -> SpooledFile:
    try:
        return spool_upload(pieces_of(request, most=limit))
    except OSError as error:  # the sender is gone, or this machine has no disk space left
        raise Busy("The file did not arrive completely. Send it again.") from error
