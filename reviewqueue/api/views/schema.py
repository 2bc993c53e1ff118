"""The OpenAPI document of this API. People read it at `/api/docs/`."""

from __future__ import annotations

from django.http import HttpResponse
from drf_spectacular.renderers import OpenApiYamlRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from reviewqueue.api.openapi.document import document
from reviewqueue.api.openapi.operations import BOTH, Operation, describe
from reviewqueue.api.query_parameters import choice_parameter, validated_query
from reviewqueue.api.response_serializers import Type
from reviewqueue.api.views.base import ApiView

FORMAT = choice_parameter("format", "Format of the document.", ["json", "yaml"], default="json")
_DOCUMENT = Type(lambda resolve: {"type": "object", "required": ["openapi", "paths"], "additionalProperties": True})


class SchemaView(ApiView):
    """The document."""

    @describe(
        Operation(
            id="read_schema",
            summary="This document",
            who=BOTH,
            responses={200: _DOCUMENT},
            query=(FORMAT,),
            other_media_types={"application/yaml": _DOCUMENT},
        )
    )
    def get(self, request: Request) -> Response | HttpResponse:
        if validated_query(request, FORMAT).get("format") == "yaml":
            return HttpResponse(OpenApiYamlRenderer().render(document()), content_type="application/yaml")
        return Response(document())
