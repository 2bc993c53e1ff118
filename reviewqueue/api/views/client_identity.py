"""The identity of the caller: what its key allows, and the limits of this server."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from reviewqueue.api.authentication import caller_of
from reviewqueue.api.base_view import BOTH, ApiView, Operation
from reviewqueue.api.responses.client_identity import ClientIdentityResponse


class ClientIdentityView(ApiView):
    """The caller."""

    @Operation(
        id="who_am_i",
        summary="Get your identity and limits",
        who=BOTH,
        responses={200: ClientIdentityResponse},
    )
    def get(self, request: Request) -> Response:
        self.validated_query(request)
        return Response(ClientIdentityResponse.serialize(caller_of(request)))
