"""The OpenAPI document of this very API, for programs; people read it at `/api/docs/`."""

from __future__ import annotations

from django.http import HttpResponse
from drf_spectacular.renderers import OpenApiYamlRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from ledger.errors import PayloadInvalid, Problem
from reviewqueue.api.openapi.document import document
from reviewqueue.api.pagination import query_of
from reviewqueue.api.views.base import ApiView


class Schema(ApiView):
    """The document."""

    def get(self, request: Request) -> Response | HttpResponse:
        """Hand it out."""
        wanted = query_of(request, "format").get("format", "json")
        if wanted == "yaml":
            return HttpResponse(OpenApiYamlRenderer().render(document()), content_type="application/yaml")
        if wanted != "json":
            message = "?format has to be one of: json, yaml"
            raise PayloadInvalid(f"The query's {message[1:]}.", errors=[Problem("", message)])
        return Response(document())
