"""The page of saved replies, and their insertion in a comment or reason without a script."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.contrib.auth.models import AbstractUser
from django.http import HttpResponse, QueryDict
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop
from django.views.decorators.http import require_POST, require_safe

from ledger.errors import NotFound, PayloadInvalid, Refusal
from reviewqueue import permissions
from reviewqueue.inbox_preferences import saved_replies
from reviewqueue.pages import code_labels
from reviewqueue.pages.rendering import PageRequest, not_found_if_invisible, redirect_page, render_page
from reviewqueue.text.hidden_characters import mark_hidden_plain
from reviewqueue.text.problem_texts import refusal_text, translate_problem
from runs.models import Queue

#: The button of a form that inserts a reply; its value is the name of the field.
INSERT = "insert"
_FIELDS = {"/name": gettext_noop("The name"), "/text": gettext_noop("The text")}
_MAX_SENT = saved_replies.MAX_TEXT_LENGTH * 2


@dataclass(frozen=True, kw_only=True)
class ShownReply:
    """A reply as the page and the forms show it. ``shared``: the title of its queue, or an empty string."""

    pk: int
    name: str
    text: str
    shared: str
    may_remove: bool


def replies_to_insert(reader: AbstractUser, queue: Queue | None) -> list[ShownReply]:
    """Return the replies that the reader can insert for a request of this queue."""
    return [
        ShownReply(
            pk=saved.pk,
            name=mark_hidden_plain(saved.name),
            text=saved.text,
            shared="" if saved.queue is None else code_labels.queue_title(saved.queue.slug),
            may_remove=False,
        )
        for saved in saved_replies.replies_for_queue(reader, queue)
    ]


def insert_reply(form: QueryDict, reader: AbstractUser) -> QueryDict:
    """Return a copy of the form with the chosen reply at the end of the field that the button names."""
    field, changed = form.get(INSERT, ""), form.copy()
    chosen = form.get(f"reply-{field}", "")
    is_number = chosen.isascii() and chosen.isdigit() and len(chosen) < 19
    saved = saved_replies.visible_replies(reader).filter(pk=int(chosen)).first() if is_number else None
    if saved is not None and field in form:
        before = form.get(field, "").rstrip()
        changed[field] = f"{before}\n{saved.text}" if before else saved.text
    return changed


@require_safe
@not_found_if_invisible
def replies(request: PageRequest) -> HttpResponse:
    """List the replies that the reader can see, with the form to save one."""
    return _page(request, {"name": "", "text": "", "queue": ""})


def _page(request: PageRequest, texts: dict[str, str], *, problem: str = "") -> HttpResponse:
    led = {queue.slug: code_labels.queue_title(queue.slug) for queue in permissions.led_queues(request.user)}
    shown = [
        ShownReply(
            pk=saved.pk,
            name=saved.name,
            text=saved.text,
            shared="" if saved.queue is None else code_labels.queue_title(saved.queue.slug),
            may_remove=saved.queue is None or saved.queue.slug in led,
        )
        for saved in saved_replies.visible_replies(request.user)
    ]
    context: dict[str, Any] = {"section": "inbox", "replies": shown, "may_share_with": led.items()}
    context |= {"texts": texts, "problem": problem, "max_text": saved_replies.MAX_TEXT_LENGTH}
    return render_page(request, "saved_replies/page.html", context, status=422 if problem else 200)


@require_POST
@not_found_if_invisible
def change(request: PageRequest, verb: str) -> HttpResponse:
    """Save a reply, or remove one."""
    texts = {name: request.POST.get(name, "")[:_MAX_SENT] for name in ("name", "text", "queue")}
    try:
        if verb == "save":
            saved, is_new = saved_replies.save_reply(request.user, **texts)
            done = (_("Saved: {name}.") if is_new else _("Replaced: {name}.")).format(name=saved.name)
        elif verb == "remove":
            sent = request.POST.get("reply", "")
            is_number = sent.isascii() and sent.isdigit() and len(sent) < 19
            removed = saved_replies.remove_reply(request.user, pk=int(sent) if is_number else 0)
            done = _("Removed: {name}.").format(name=removed.name)
        else:
            raise NotFound
    except NotFound:
        raise
    except PayloadInvalid as refusal:
        problems = " ".join(
            f"{_(_FIELDS[problem.pointer])} {translate_problem(problem.message)}." for problem in refusal.errors
        )
        return _page(request, texts, problem=problems or refusal_text(refusal))
    except Refusal as refusal:
        messages.error(request, mark_hidden_plain(refusal_text(refusal)))
    else:
        messages.success(request, mark_hidden_plain(done))
    return redirect_page(request, reverse("saved-replies"))
