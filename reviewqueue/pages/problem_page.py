"""The page at a problem's `type` (RFC 9457): the meaning of an error code. Open without signing in, like the docs."""

from __future__ import annotations

from django.contrib.auth.decorators import login_not_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from reviewqueue.api.problems import PROBLEMS, refusals_by_code


@require_safe
@login_not_required
def problem_page(request: HttpRequest, code: str) -> HttpResponse:
    if code not in PROBLEMS:
        raise Http404
    status, title = PROBLEMS[code]
    refusal = refusals_by_code()[code]
    shown = {"code": code, "status": status, "title": title, "retryable": refusal.retryable}
    return render(request, "problem.html", shown | {"sentence": refusal.sentence()})
