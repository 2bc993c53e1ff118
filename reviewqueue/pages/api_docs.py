"""The API documentation: Swagger UI on the OpenAPI document, for signed-in people.

Swagger UI is served from this host, under the content security policy of every page. The API accepts no session, so the
page loads the document from an address of its own; trying a call needs an API key.
"""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from ledger.exact_json import dumps
from reviewqueue.api.openapi.document import document


@require_safe
def api_docs(request: HttpRequest) -> HttpResponse:
    return render(request, "api_docs.html")


@require_safe
def api_document(request: HttpRequest) -> HttpResponse:
    return HttpResponse(dumps(document()), content_type="application/json")
