"""The API's documentation for people, behind the sign-in: Swagger UI, served from here, over the document of `GET schema`.

Own scripts only, so the content security policy of every page holds here too. A session is no authority at the API, so the
page gets the document by an address of its own, and whoever tries a call out there gives a key.
"""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from ledger.exact_json import dumps
from reviewqueue.api.openapi.document import document


@require_safe
def api_docs(request: HttpRequest) -> HttpResponse:
    """Show every operation."""
    return render(request, "api_docs.html")


@require_safe
def api_document(request: HttpRequest) -> HttpResponse:
    """Hand the document to that page."""
    return HttpResponse(dumps(document()), content_type="application/json")
