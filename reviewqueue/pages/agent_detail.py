"""The page of one agent: keys, effects, call labels, connections, webhook endpoints, policies. Each form is one change.

`reviewqueue.operations.administration` checks the permissions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from django.contrib import messages
from django.contrib.auth.models import Group
from django.http import Http404, HttpResponse, QueryDict
from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from ledger import clock
from ledger.errors import NotFound, Refusal
from ledger.public_ids import new_id
from reviewqueue import permissions
from reviewqueue.models import ApiKey
from reviewqueue.operations import administration
from reviewqueue.operations.api_keys import SCOPES, NewKey
from reviewqueue.operations.provisioning.agents import MODE_LABELS
from reviewqueue.operations.provisioning.names import ProvisioningError
from reviewqueue.pages.agents import agents_shown
from reviewqueue.pages.rendering import PageRequest, not_found_if_invisible, redirect_page, render_page
from reviewqueue.text.hidden_characters import mark_hidden_plain
from reviewqueue.text.problem_texts import refusal_text
from reviewqueue.webhooks import endpoints
from reviewqueue.webhooks.event_types import TYPES
from reviewqueue.webhooks.models import WebhookEndpoint
from reviewqueue.webhooks.sender import send_test_message
from runs.models import Agent, Policy
from runs.states import EffectMode

SCOPE_MEANINGS = {
    "run": gettext_lazy("work on runs and requests"),
    "control": gettext_lazy("pause, resume and cancel runs"),
    "signal": gettext_lazy("send and list signals"),
}
OVERLAPS = {
    "0": (gettext_lazy("none: the old key ends now"), timedelta()),
    "hour": (gettext_lazy("1 hour"), timedelta(hours=1)),
    "day": (gettext_lazy("1 day"), timedelta(days=1)),
    "week": (gettext_lazy("7 days"), timedelta(days=7)),
}
MAX_FIELD = 2_000


@dataclass(frozen=True, kw_only=True)
class ShownKey:
    """A key and whether it can be used now."""

    key: ApiKey
    is_expired: bool

    @property
    def is_valid(self) -> bool:
        return self.key.revoked_at is None and not self.is_expired


@dataclass(frozen=True, kw_only=True)
class NewSecret:
    """A secret that this response alone shows."""

    label: str
    text: str


@require_safe
@not_found_if_invisible
def agent(request: PageRequest, slug: str) -> HttpResponse:
    """Show what is configured for an agent."""
    return _render(request, administration.find_agent(request.user, slug))


@require_POST
@not_found_if_invisible
def add_agent(request: PageRequest) -> HttpResponse:
    """Add an agent, and show its first key."""
    administration.refuse_unless_operator(request.user)
    form = _texts(request.POST)
    effects = form.get("effects", "")
    try:
        if effects not in EffectMode.values:
            raise ProvisioningError(_("Choose which effects the agent can begin."))
        made, key = administration.add_agent(
            request.user, form.get("name", "").strip(), owner=form.get("owner", "").strip(), effects=effects
        )
    except ProvisioningError as refused:
        messages.error(request, f"{refused} {_('Nothing was changed.')}")
        return redirect_page(request, reverse("agents"))
    return _render(request, made, secret=_of_key(key))


@require_POST
@not_found_if_invisible
def change(request: PageRequest, slug: str, subject: str, verb: str) -> HttpResponse:
    """Make one change, and show the page again; a new secret is shown once, in this response."""
    found = administration.find_agent(request.user, slug)
    act = CHANGES.get((subject, verb))
    if act is None:
        raise Http404
    try:
        outcome = act(request, found, _texts(request.POST))
    except NotFound:
        raise
    except ProvisioningError as refused:
        messages.error(request, f"{mark_hidden_plain(str(refused))} {_('Nothing was changed.')}")
    except Refusal as refusal:
        messages.error(request, mark_hidden_plain(refusal_text(refusal)))
    else:
        if isinstance(outcome, NewSecret):
            return _render(request, found, secret=outcome)
        messages.success(request, mark_hidden_plain(outcome))
    return redirect_page(request, f"{reverse('agent', args=[slug])}#agent-{subject}")


def _texts(form: QueryDict) -> dict[str, str]:
    """Return the last value of each field, without NUL; an overlong one is cut, and then refused by its length."""
    return {name: str(form[name]).replace("\0", "")[:MAX_FIELD] for name in form}


def _render(request: PageRequest, found: Agent, *, secret: NewSecret | None = None) -> HttpResponse:
    now, is_operator = clock.now(), permissions.is_operator(request.user)
    keys = [
        ShownKey(key=key, is_expired=key.expires_at is not None and key.expires_at <= now)
        for key in administration.keys_of(found)
    ]
    policies = Policy.objects.filter(agent=found).select_related("queue").order_by("reason", "version")
    reasons = sorted(
        {*Policy.objects.filter(agent=None).values_list("reason", flat=True)} | {it.reason for it in policies}
    )
    context = {
        "section": "agents",
        "shown": agents_shown(request.user, only=found)[0],
        "agent": found,
        "secret": secret,
        "keys": keys,
        "scopes": [(scope, SCOPE_MEANINGS[scope]) for scope in SCOPES],
        "overlaps": [(code, label) for code, (label, _length) in OVERLAPS.items()],
        "rules": found.effect_rules.order_by("name_pattern"),
        "mode_label": gettext(MODE_LABELS[EffectMode(found.effect_mode)]),
        "other_mode": EffectMode.ANY if found.effect_mode == EffectMode.LISTED else EffectMode.LISTED,
        "reasons": reasons,
        "labels": found.call_labels.order_by("name"),
        "connections": found.connections.order_by("name"),
        "webhooks": endpoints.endpoints_of(found).order_by("-pk"),
        "event_types": TYPES,
        "policies": {it.reason: it for it in policies}.values(),
        "owners": Group.objects.order_by("name").values_list("name", flat=True) if is_operator else [],
        "is_operator": is_operator,
        "now": now,
    }
    return render_page(request, "agents/detail.html", context)


# --- the changes --------------------------------------------------------------------------------------------------------


def _of_key(made: NewKey) -> NewSecret:
    label = _("the key {name}").format(name=made.key.name) if made.key.name else _("the key")
    return NewSecret(label=label, text=made.text)


def _expiry(form: dict[str, str]) -> datetime | None:
    """Return the end of the chosen day in UTC; ``None`` without one."""
    text = form.get("expires", "").strip()
    if not text:
        return None
    try:
        return datetime.combine(date.fromisoformat(text), time(), tzinfo=UTC) + timedelta(days=1)
    except (ValueError, OverflowError):
        raise ProvisioningError(_("The expiry must be a day, such as 2027-03-31.")) from None


def _add_key(request: PageRequest, found: Agent, form: dict[str, str]) -> NewSecret:
    scopes = request.POST.getlist("scope")[:10]
    made = administration.add_key(
        request.user, found.slug, name=form.get("name", ""), scopes=scopes, expires_at=_expiry(form)
    )
    return _of_key(made)


def _rotate_key(request: PageRequest, found: Agent, form: dict[str, str]) -> NewSecret:
    if form.get("overlap") not in OVERLAPS:
        raise ProvisioningError(_("Choose how long the old key stays valid."))
    overlap = OVERLAPS[form["overlap"]][1]
    made = administration.rotate_key(
        request.user, found.slug, form.get("key", ""), overlap=overlap, expires_at=_expiry(form)
    )
    return _of_key(made)


def _revoke_key(request: PageRequest, found: Agent, form: dict[str, str]) -> str:
    key = administration.revoke_key(request.user, found.slug, form.get("key", ""))
    text = _("rq_{key} is revoked. Calls with it are refused from now on, also long polls that wait.")
    return text.format(key=key.prefix)


def _set_mode(request: PageRequest, found: Agent, form: dict[str, str]) -> str:
    if form.get("effects") not in EffectMode.values:
        raise ProvisioningError(_("Choose which effects the agent can begin."))
    administration.set_effect_mode(request.user, found.slug, effects=form["effects"])
    mode = gettext(MODE_LABELS[EffectMode(form["effects"])])
    return _("{agent} can begin {effects} now.").format(agent=found.slug, effects=mode)


def _add_rule(request: PageRequest, found: Agent, form: dict[str, str]) -> str:
    is_allowed, reason = form.get("action") == "allow", form.get("reason", "")
    if not is_allowed and not reason:
        raise ProvisioningError(_("Choose the reason of the approval, or allow the effect."))
    rule = administration.add_effect_rule(
        request.user, found.slug, pattern=form.get("pattern", ""), reason="" if is_allowed else reason
    )
    text = _("{name} needs an approval for {reason}.") if rule.reason else _("{name} is allowed.")
    return text.format(name=rule.name_pattern, reason=rule.reason)


def _remove_rule(request: PageRequest, found: Agent, form: dict[str, str]) -> str:
    rule = administration.remove_effect_rule(request.user, found.slug, pattern=form.get("pattern", ""))
    return _("The rule for {name} is removed.").format(name=rule.name_pattern)


def _add_label(request: PageRequest, found: Agent, form: dict[str, str]) -> str:
    arguments: dict[str, dict[str, str]] = {}
    for line in filter(str.strip, form.get("arguments", "").splitlines()):
        name, label, unit = ([part.strip() for part in line.split("|")] + ["", ""])[:3]
        if not name or not label:
            raise ProvisioningError(
                _("Each line of the arguments must be: argument | label | unit. The unit can be left out.")
            )
        arguments[name] = {"label": label} | ({"unit": unit} if unit else {})
    label_row = administration.add_call_label(
        request.user, found.slug, name=form.get("name", ""), sentence=form.get("sentence", ""), arguments=arguments
    )
    text = _("Calls {name} are shown as: {sentence}")
    return text.format(name=label_row.name, sentence=label_row.sentence)


def _remove_label(request: PageRequest, found: Agent, form: dict[str, str]) -> str:
    administration.remove_call_label(request.user, found.slug, name=form.get("name", ""))
    return _("The label of {name} is removed.").format(name=form.get("name", ""))


def _add_connection(request: PageRequest, found: Agent, form: dict[str, str]) -> str:
    wanted = {name: form.get(name, "").strip() for name in ("name", "url", "secret")}
    connection = administration.add_connection(request.user, found.slug, **wanted)
    return _("The connection {name} is added. Test it.").format(name=connection.name)


def _remove_connection(request: PageRequest, found: Agent, form: dict[str, str]) -> str:
    administration.remove_connection(request.user, found.slug, name=form.get("name", ""))
    return _("The connection {name} is removed.").format(name=form.get("name", ""))


def _test_connection(request: PageRequest, found: Agent, form: dict[str, str]) -> str:
    name = form.get("name", "")
    trouble = administration.test_connection(request.user, found.slug, name=name, path=form.get("path", "") or "/")
    if trouble:
        raise ProvisioningError(f"{_('The test of {name} failed.').format(name=name)} {trouble}")
    return _("The test of {name} succeeded: the server answered with JSON.").format(name=name)


def _add_webhook(request: PageRequest, found: Agent, form: dict[str, str]) -> NewSecret:
    events = request.POST.getlist("event")[: len(TYPES)]
    if not events:
        raise ProvisioningError(_("Choose at least one type of event."))
    description = form.get("description", "").strip()
    if len(description) > 300 or len(form.get("url", "")) > endpoints.MAX_URL_LENGTH:
        raise ProvisioningError(_("The URL must have at most 500 and the description at most 300 characters."))
    wanted = endpoints.EndpointRequest(
        key=new_id("key"), body_digest="", url=form.get("url", "").strip(), events=events, description=description
    )
    actor = administration.person_actor(request.user)
    made = endpoints.register_endpoint(agent=found, request=wanted, actor=actor)
    return NewSecret(label=_("the signing secret of the endpoint"), text=made.secret or "")


def _delete_webhook(request: PageRequest, found: Agent, form: dict[str, str]) -> str:
    actor = administration.person_actor(request.user)
    endpoints.delete_endpoint(agent=found, endpoint_id=form.get("webhook", ""), actor=actor)
    return _("The endpoint is deleted. Messages that were due are not sent.")


def _rotate_webhook(request: PageRequest, found: Agent, form: dict[str, str]) -> NewSecret:
    actor = administration.person_actor(request.user)
    made = endpoints.rotate_secret(agent=found, endpoint_id=form.get("webhook", ""), actor=actor)
    return NewSecret(label=_("the new signing secret; the old one also signs for a day"), text=made.secret or "")


def _test_webhook(request: PageRequest, found: Agent, form: dict[str, str]) -> str:
    endpoint: WebhookEndpoint | None = endpoints.endpoints_of(found).filter(public_id=form.get("webhook", "")).first()
    if endpoint is None:
        raise NotFound
    ending = send_test_message(endpoint)
    if ending.trouble:
        # The beginning of the reply is for operators only: an owner could otherwise read internal servers.
        parts = [_("The test message was not accepted."), ending.trouble]
        if ending.excerpt and permissions.is_operator(request.user):
            parts.append(_("The reply begins: {text}").format(text=ending.excerpt))
        raise ProvisioningError(" ".join(parts))
    return _("The receiver accepted the signed test message (status {status}).").format(status=ending.status)


def _change_owner(request: PageRequest, found: Agent, form: dict[str, str]) -> str:
    owner = form.get("owner", "").strip()
    administration.change_owner(request.user, found.slug, owner=owner, owner_seen=form.get("owner_seen", ""))
    text = _("{owner} owns {agent} now. Unknown outcomes and holds that are open stay with the group that they name.")
    return text.format(owner=owner, agent=found.slug)


CHANGES: dict[tuple[str, str], Callable[[PageRequest, Agent, dict[str, str]], Any]] = {
    ("keys", "add"): _add_key,
    ("keys", "rotate"): _rotate_key,
    ("keys", "revoke"): _revoke_key,
    ("effects", "mode"): _set_mode,
    ("effects", "add"): _add_rule,
    ("effects", "remove"): _remove_rule,
    ("labels", "add"): _add_label,
    ("labels", "remove"): _remove_label,
    ("connections", "add"): _add_connection,
    ("connections", "remove"): _remove_connection,
    ("connections", "test"): _test_connection,
    ("webhooks", "add"): _add_webhook,
    ("webhooks", "delete"): _delete_webhook,
    ("webhooks", "rotate"): _rotate_webhook,
    ("webhooks", "test"): _test_webhook,
    ("owner", "change"): _change_owner,
}
