"""The OpenAPI document of this API, open to everyone. People read it at `/api/docs/`."""

from __future__ import annotations

from django.http import HttpResponse
from rest_framework.request import Request

from reviewqueue.api.base_view import ANYONE, ApiView, Operation, choice_parameter
from reviewqueue.api.openapi.document import document_as
from reviewqueue.api.response_serializers import Type

FORMAT = choice_parameter("format", "Format of the document.", ["json", "yaml"], default="json")
_DOCUMENT = Type(
    lambda resolve: {
        "type": "object",
        "required": ["openapi", "paths"],
        "properties": {"openapi": {"type": "string"}, "paths": {"type": "object", "additionalProperties": True}},
        "additionalProperties": True,
    }
)


class SchemaView(ApiView):
    """The document."""

    authentication_classes = []
    permission_classes = []

    @Operation(
        id="read_schema",
        summary="This document",
        who=ANYONE,
        responses={200: _DOCUMENT},
        query=(FORMAT,),
        other_media_types={"application/yaml": _DOCUMENT},
    )
    def get(self, request: Request) -> HttpResponse:
        media_type = self.validated_query(request).get("format", "json")
        return HttpResponse(document_as(media_type), content_type=f"application/{media_type}")
