"""The file of a checkpoint: opaque bytes, streamed in by the worker that commits it, and out to whoever goes on."""

from __future__ import annotations

from django.conf import settings
from django.http import FileResponse
from rest_framework.request import Request
from rest_framework.response import Response

from ledger.errors import Busy, Refusal
from reviewqueue.api import responses
from reviewqueue.api.authentication import worker_of
from reviewqueue.api.binary_bodies import (
    MEDIA_TYPE,
    a_place,
    asked_digest,
    content_digest,
    guard_bytes,
    let_rest_arrive,
    pieces_of,
)
from reviewqueue.api.pagination import query_of
from reviewqueue.api.problems import MalformedRequest
from reviewqueue.api.views.base import ApiView, lease_token
from runs.errors import DigestMismatch
from runs.file_storage import PIECE, Spooled, spool
from runs.use_cases import transfer_file


class CheckpointFile(ApiView):
    """The file of one boundary."""

    def guard(self, request: Request) -> None:
        """Leave the bytes of a file to `put`, which reads them piece by piece."""
        if request.method != "PUT":
            super().guard(request)

    def get(self, request: Request, run_id: str, number: int) -> FileResponse:
        """Send it, verified."""
        agent = worker_of(request)
        query_of(request)
        with a_place():
            fetched = transfer_file.fetch_file(agent=agent, run_id=run_id, number=number)
        response = FileResponse(
            fetched.bytes.file, as_attachment=True, filename=f"{run_id}-{number}.bin", content_type=MEDIA_TYPE
        )
        response.block_size = PIECE
        response["Content-Digest"] = content_digest(fetched.file.digest)
        response["ETag"] = f'"{fetched.file.digest}"'
        return response

    def put(self, request: Request, run_id: str, number: int) -> Response:
        """Take it for the next checkpoint."""
        try:
            offered = self._take(request, run_id, number)
        except (Busy, MalformedRequest):
            raise  # there is no place in which to hear the rest out, or no telling where it ends
        except Refusal:
            let_rest_arrive(request)
            raise
        shown = {"number": number} | responses.file_mark(offered.file)
        return Response(shown, status=201 if offered.created else 200)

    def _take(self, request: Request, run_id: str, number: int) -> transfer_file.Offered:
        agent, most = worker_of(request), settings.CHECKPOINT_FILE_BYTES
        query_of(request)
        token, stated = lease_token(request), asked_digest(request)
        guard_bytes(request, most=most)
        transfer_file.refuse_early(agent=agent, run_id=run_id, token=token, number=number)
        with a_place():
            sent = _arrived(request, most=most)
            with sent.file:
                if stated and stated != sent.digest:
                    raise DigestMismatch(
                        f"What arrived has the digest {sent.digest}.", digest=sent.digest, size=sent.size
                    )
                return transfer_file.offer_file(agent=agent, run_id=run_id, token=token, number=number, sent=sent)


def _arrived(request: Request, *, most: int) -> Spooled:
    try:
        return spool(pieces_of(request, most=most))
    except OSError as error:  # its sender is gone, or this machine has no room for what is on its way
        raise Busy("This file did not arrive whole. Send it again.") from error
