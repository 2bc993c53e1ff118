"""The API documentation: Swagger UI on the OpenAPI document, open to everyone.

Swagger UI is served from this host, under the content security policy of every page. Trying a call needs an API key.
"""

from __future__ import annotations

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe


@require_safe
@login_not_required
def api_docs(request: HttpRequest) -> HttpResponse:
    return render(request, "api_docs.html")
