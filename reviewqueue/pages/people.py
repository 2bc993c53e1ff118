"""The page of people, for operators: invite, give and remove roles, disable, send a password link, and the audit log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop
from django.views.decorators.http import require_POST, require_safe

from ledger.errors import NotFound
from reviewqueue import permissions
from reviewqueue.operations import people as accounts
from reviewqueue.operations.installation import PROGRAM
from reviewqueue.operations.provisioning.names import ProvisioningError
from reviewqueue.operations.provisioning.people import ROLES
from reviewqueue.pages.rendering import PageRequest, not_found_if_invisible, redirect_page, render_page
from runs.models import Agent, Queue

MAX_SEARCH_LENGTH = 100
ROLE_NAMES = {
    "reviewer": gettext_noop("reviewer"),
    "lead": gettext_noop("lead"),
    "auditor": gettext_noop("auditor"),
    "owner": gettext_noop("owner"),
    "operator": gettext_noop("operator"),
}


@require_safe
@not_found_if_invisible
def people(request: PageRequest) -> HttpResponse:
    """List people with their roles, and the newest changes."""
    if not permissions.is_operator(request.user):
        raise NotFound
    search = request.GET.get("q", "").replace("\0", "")[:MAX_SEARCH_LENGTH].strip()
    found, has_more = accounts.list_people(search=search)
    context = {
        "section": "people",
        "people": found,
        "has_more": has_more,
        "search": search,
        "changes": accounts.recent_changes(),
        "roles": [(role, _(ROLE_NAMES[role])) for role in ROLES],
        "queues": list(Queue.objects.order_by("slug").values_list("slug", flat=True)),
        "agents": list(Agent.objects.order_by("slug").values_list("slug", flat=True)),
        "sends_mail": bool(settings.EMAIL_HOST),
        "program": PROGRAM,
    }
    return render_page(request, "people/page.html", context)


@require_POST
@not_found_if_invisible
def add_person(request: PageRequest) -> HttpResponse:
    """Give a person a role; a new person is invited by mail."""
    address, role = request.POST.get("email", "").strip().lower(), request.POST.get("role", "")
    if not permissions.is_operator(request.user):
        raise NotFound
    if role not in ROLES or len(address) > 150 or "\0" in address:
        messages.error(request, _("Enter an e-mail address and choose a role. Nothing was changed."))
        return redirect_page(request, reverse("people"))
    of: dict[str, Any] = {name: request.POST.get(name, "").replace("\0", "") for name in ("queue", "agent")}
    if role in ("owner", "operator"):
        of["queue"] = ""
    if role != "owner":
        of["agent"] = ""
    return _answer(
        request,
        lambda: accounts.add_or_invite(request.user, address, role=role, **of).is_invited,
        lambda invited: (_("{name} is invited.") if invited else _("{name} has the role {role} now.")).format(
            name=address, role=_(ROLE_NAMES[role])
        ),
    )


@require_POST
@not_found_if_invisible
def change_person(request: PageRequest, move: str) -> HttpResponse:
    """Disable or enable a person, remove a role, end sessions, reset the second factor, or send a password link."""
    address, group = request.POST.get("person", "")[:150].replace("\0", ""), request.POST.get("group", "")
    moves: dict[str, tuple[Callable[[], object], str]] = {
        "disable": (lambda: accounts.set_active(request.user, address, active=False), _("{name} is disabled.")),
        "enable": (lambda: accounts.set_active(request.user, address, active=True), _("{name} is enabled.")),
        "remove-role": (
            lambda: accounts.remove_role(request.user, address, group_pk=int(group)),
            "",
        ),
        "end-sessions": (lambda: accounts.end_sessions(request.user, address), _("{name} is signed out everywhere.")),
        "reset-second-factor": (
            lambda: accounts.reset_second_factors(request.user, address),
            _("{name} has no second factor now and is signed out everywhere."),
        ),
        "password-link": (lambda: accounts.send_password_link(request.user, address), _("{name} gets a link by mail.")),
    }
    if move not in moves or (move == "remove-role" and not (group.isdecimal() and len(group) < 15)):
        raise Http404
    act, said = moves[move]
    return _answer(
        request, act, lambda _done: said.format(name=address) if said else _removed_roles(int(group), address)
    )


def _removed_roles(group_pk: int, address: str) -> str:
    labels = accounts.labels_of_group(group_pk)
    if len(labels) > 1:
        text = _("{name} no longer has these roles, which share a group: {roles}.")
        return text.format(name=address, roles=", ".join(labels))
    if labels:
        return _("{name} no longer has the role {role}.").format(name=address, role=labels[0])
    return _("{name} no longer has this role.").format(name=address)


def _answer(request: PageRequest, act: Callable[[], Any], said: Callable[[Any], str]) -> HttpResponse:
    try:
        messages.success(request, said(act()))
    except ProvisioningError as refused:
        messages.error(request, f"{refused} {_('Nothing was changed.')}")
    search = request.POST.get("q", "")[:MAX_SEARCH_LENGTH]
    return redirect_page(request, reverse("people") + (f"?{urlencode({'q': search})}" if search else ""))
