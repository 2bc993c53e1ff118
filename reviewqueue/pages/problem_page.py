"""The page behind a problem's `type`: what a code means, in the sentence people read. Open to everybody, like the docs.

Called by whoever follows the address in a problem; it knows codes, and nothing of any request.
"""

from __future__ import annotations

from django.contrib.auth.decorators import login_not_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from reviewqueue.api.problems import PROBLEMS, explained


@require_safe
@login_not_required
def problem_page(request: HttpRequest, code: str) -> HttpResponse:
    """Show one code."""
    if code not in PROBLEMS:
        raise Http404
    status, title = PROBLEMS[code]
    refusal = explained()[code]
    shown = {"code": code, "status": status, "title": title, "retryable": refusal.retryable}
    return render(request, "problem.html", shown | {"sentence": refusal.sentence()})
