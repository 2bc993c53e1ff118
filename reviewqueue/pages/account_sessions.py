"""The page of one's own sessions: where one is signed in, and sign-out from elsewhere."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods

from reviewqueue.accounts import sessions
from reviewqueue.pages.rendering import PageRequest, redirect_page, render_page


@require_http_methods(["GET", "HEAD", "POST"])
def own_sessions(request: PageRequest) -> HttpResponse:
    """List the reader's sessions; by POST end one of them (`session`), or all others (`others`)."""
    if request.method == "POST":
        return _end(request)
    context = {
        "sessions": sessions.list_sessions(request.user),
        "current": request.session.session_key,
    }
    return render_page(request, "account/sessions.html", context)


def _end(request: PageRequest) -> HttpResponse:
    if "others" in request.POST:
        count = sessions.end_sessions(request.user, but=request.session.session_key)
        text = ngettext("{number} other session ended.", "{number} other sessions ended.", count)
        messages.success(request, text.format(number=count))
    else:
        chosen = request.POST.get("session", "")
        is_number = chosen.isascii() and chosen.isdecimal() and len(chosen) < 15
        if is_number and sessions.end_session(request.user, int(chosen)):
            messages.success(request, _("The session has ended."))
        else:
            messages.error(request, _("You have no such session. Nothing was changed."))
    return redirect_page(request, reverse("account_sessions"))
