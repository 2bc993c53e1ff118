"""The saved filters of the inbox: links above the list, and the forms to save and remove them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.contrib.auth.models import AbstractUser
from django.http import HttpResponse, QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop
from django.views.decorators.http import require_POST

from ledger.errors import NotFound, PayloadInvalid, Refusal
from reviewqueue import permissions
from reviewqueue.inbox_preferences import saved_filters
from reviewqueue.pages import code_labels
from reviewqueue.pages.inbox.list_request import ListRequest, address, read_list, read_list_text
from reviewqueue.pages.rendering import PageRequest, not_found_if_invisible, redirect_page
from reviewqueue.text.hidden_characters import mark_hidden_plain
from reviewqueue.text.problem_texts import refusal_text, translate_problem

#: How an error names the member of the filter.
_MEMBERS = {"/name": gettext_noop("The name"), "/query": gettext_noop("The list")}


@dataclass(frozen=True, kw_only=True)
class SavedLink:
    """A saved filter as a link. ``shared``: the title of the queue with which it is shared, or an empty string."""

    pk: int
    name: str
    url: str
    shared: str
    is_current: bool
    may_remove: bool


def saved_filters_context(reader: AbstractUser, asked_for: ListRequest) -> dict[str, Any]:
    """Return the links and what the form to save the shown list offers."""
    led = {queue.slug: code_labels.queue_title(queue.slug) for queue in permissions.led_queues(reader)}
    links = []
    for saved in saved_filters.visible_filters(reader):
        found = read_list(QueryDict(saved.query))
        links.append(
            SavedLink(
                pk=saved.pk,
                name=saved.name,
                url=address(found.view, found.filters),
                shared="" if saved.queue is None else code_labels.queue_title(saved.queue.slug),
                is_current=found.query() == asked_for.query(),
                may_remove=saved.queue is None or saved.queue.slug in led,
            )
        )
    return {"saved_links": links, "may_share_with": led.items(), "saved_query": asked_for.query()}


@require_POST
@not_found_if_invisible
def change(request: PageRequest, verb: str) -> HttpResponse:
    """Save the shown list under a name, or remove a saved filter."""
    asked = read_list_text(request.POST.get("list", ""))
    try:
        if verb == "save":
            named, queue = (request.POST.get(name, "").strip()[:200] for name in ("name", "queue"))
            saved, is_new = saved_filters.save_filter(request.user, name=named, query=asked.query(), queue=queue)
            text = (_("Saved: {name}.") if is_new else _("Replaced: {name}.")).format(name=saved.name)
        elif verb == "remove":
            sent = request.POST.get("filter", "")
            is_number = sent.isascii() and sent.isdigit() and len(sent) < 19
            removed = saved_filters.remove_filter(request.user, pk=int(sent) if is_number else 0)
            text = _("Removed: {name}.").format(name=removed.name)
        else:
            raise NotFound
    except NotFound:
        raise
    except PayloadInvalid as refusal:
        problems = " ".join(
            f"{_(_MEMBERS[problem.pointer])} {translate_problem(problem.message)}." for problem in refusal.errors
        )
        messages.error(request, f"{problems or refusal_text(refusal)} {_('Nothing was saved.')}")
    except Refusal as refusal:
        messages.error(request, mark_hidden_plain(refusal_text(refusal)))
    else:
        messages.success(request, mark_hidden_plain(text))
    return redirect_page(request, address(asked.view, asked.filters))
