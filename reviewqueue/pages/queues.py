"""The pages of queues and policies: create and change queues, add policy versions after a preview of what changes.

`reviewqueue.operations.queue_administration` checks the permissions.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.db.models import Count
from django.http import Http404, HttpResponse, QueryDict
from django.urls import reverse
from django.utils.translation import gettext
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from ledger.datetimes import InvalidDatetime
from ledger.errors import NotFound, Refusal
from reviewqueue import permissions
from reviewqueue.datetimes import duration_text, parse_duration
from reviewqueue.operations import queue_administration as administration
from reviewqueue.operations.provisioning.names import ProvisioningError
from reviewqueue.operations.provisioning.policies import CHOICES, DURATIONS, FLAGS, NUMBERS, POLICY_RULES, whole_seconds
from reviewqueue.pages.rendering import PageRequest, not_found_if_invisible, redirect_page, render_page
from reviewqueue.text.hidden_characters import mark_hidden_plain
from reviewqueue.text.problem_texts import refusal_text
from runs.models import Agent, Interrupt, Policy, Queue
from runs.states import InterruptStatus

MAX_FIELD = 1_000


@dataclass(frozen=True, kw_only=True)
class ShownQueue:
    """A queue with what depends on it, and the token of its state for the forms."""

    queue: Queue
    open_requests: int
    policies: list[str]
    seen: str


@dataclass(frozen=True, kw_only=True)
class ShownRule:
    """A rule that a new version changes, as texts."""

    name: str
    before: str
    after: str


# --- queues -----------------------------------------------------------------------------------------------------------


@require_safe
@not_found_if_invisible
def queues(request: PageRequest) -> HttpResponse:
    """List the queues and policies that the reader administers."""
    administration.refuse_unless_administrator(request.user)
    found = list(administration.queues_of(request.user))
    is_operator = permissions.is_operator(request.user)
    waiting = Interrupt.objects.filter(status=InterruptStatus.WAITING, queue__in=found)
    counts = dict(waiting.values_list("queue").annotate(count=Count("pk")).order_by())
    policies = administration.newest_policies(request.user)
    shown = [
        ShownQueue(
            queue=queue,
            open_requests=counts.get(queue.pk, 0),
            policies=[_policy_name(policy) for policy in policies if policy.queue_id == queue.pk],
            seen=administration.state_token(queue),
        )
        for queue in found
    ]
    owned = permissions.owned_agents(request.user).order_by("slug")
    context = {
        "section": "agents",
        "queues": shown,
        "policies": [(policy, _policy_url(request, policy)) for policy in policies],
        "agents": list(owned.values_list("slug", flat=True)),
        "is_operator": is_operator,
    }
    return render_page(request, "queues/page.html", context)


def _policy_url(request: PageRequest, policy: Policy) -> str:
    """Return the address of the form of the next version; empty if the reader cannot add one."""
    if not administration.can_change(request.user, policy.agent):
        return ""
    named = {"reason": policy.reason} | ({"agent": policy.agent.slug} if policy.agent else {})
    return f"{reverse('edit-policy')}?{urlencode(named)}"


def _policy_name(policy: Policy) -> str:
    if policy.agent is None:
        return policy.reason
    return _("{reason} of {agent}").format(reason=policy.reason, agent=policy.agent.slug)


@require_POST
@not_found_if_invisible
def add_queue(request: PageRequest) -> HttpResponse:
    """Add a queue."""
    name, owner = _text(request.POST, "name"), _text(request.POST, "owner")
    try:
        made = administration.add_queue(request.user, name, owner=owner)
        done = _("The queue {queue} is added. Give people its roles on the page of people.")
        messages.success(request, done.format(queue=made.slug))
    except ProvisioningError as refused:
        messages.error(request, f"{mark_hidden_plain(str(refused))} {_('Nothing was changed.')}")
    return redirect_page(request, reverse("queues"))


@require_POST
@not_found_if_invisible
def change_queue(request: PageRequest, slug: str, verb: str) -> HttpResponse:
    """Close a queue for new requests, open it again, or change its owner."""
    changes: dict[str, dict[str, Any]] = {
        "close": {"accepts_new": False},
        "open": {"accepts_new": True},
        "owner": {"owner": _text(request.POST, "owner")},
    }
    if verb not in changes:
        raise Http404
    try:
        queue = administration.change_queue(request.user, slug, state=_text(request.POST, "seen"), **changes[verb])
        done = (
            _("The queue {queue} takes new requests and belongs to {group}.")
            if queue.accepts_new
            else _("The queue {queue} takes no new requests and belongs to {group}.")
        )
        messages.success(request, done.format(queue=slug, group=queue.owner.name))
    except NotFound:
        raise
    except ProvisioningError as refused:
        messages.error(request, f"{mark_hidden_plain(str(refused))} {_('Nothing was changed.')}")
    except Refusal as refusal:
        messages.error(request, refusal_text(refusal))
    return redirect_page(request, reverse("queues"))


def _text(form: QueryDict, name: str) -> str:
    return form.get(name, "").replace("\0", "")[:MAX_FIELD].strip()


# --- policies ---------------------------------------------------------------------------------------------------------


@require_http_methods(["GET", "HEAD", "POST"])
@not_found_if_invisible
def edit_policy(request: PageRequest) -> HttpResponse:
    """Show the form of the next version; preview it; add it."""
    data = request.POST if request.method == "POST" else request.GET
    reason, agent = _text(data, "reason"), _text(data, "agent")
    last = administration.find_policy(request.user, reason, agent=agent)
    if request.method != "POST":
        return _policy_page(request, reason, agent, last, texts=_texts_of(last or _general(reason) or Policy()))
    texts = _posted_texts(request.POST)
    based_on = _text(request.POST, "based_on")
    try:
        rules = read_rules(texts)
        if request.POST.get("act") != "save":
            preview = administration.preview_policy(request.user, reason, agent=agent, **rules)
            return _policy_page(request, reason, agent, last, texts=texts, preview=preview)
        if not (based_on.isascii() and based_on.isdecimal() and len(based_on) < 9):
            raise ProvisioningError(_("Preview the change first."))
        made = administration.add_policy(request.user, reason, agent=agent, based_on=int(based_on), **rules)
    except NotFound:
        raise
    except ProvisioningError as refused:
        return _policy_page(request, reason, agent, last, texts=texts, problem=str(refused))
    except Refusal as refusal:
        return _policy_page(request, reason, agent, last, texts=texts, problem=refusal_text(refusal), status=409)
    done = _("Version {number} of {policy} is added. Open requests keep theirs.")
    messages.success(request, mark_hidden_plain(done.format(number=made.version, policy=_policy_name(made))))
    return redirect_page(request, reverse("queues"))


def _general(reason: str) -> Policy | None:
    return Policy.objects.filter(reason=reason, agent=None).order_by("-version").first()


def _policy_page(
    request: PageRequest,
    reason: str,
    agent: str,
    last: Policy | None,
    *,
    texts: dict[str, str],
    preview: administration.PolicyPreview | None = None,
    problem: str = "",
    status: int = 200,
) -> HttpResponse:
    of = Agent.objects.filter(slug=agent).first() if agent else None
    context = {
        "section": "agents",
        "reason": reason,
        "agent": of,
        "last": last,
        "based_on": 0 if last is None else last.version,
        "texts": texts,
        "durations": [(name, gettext(label), texts[name]) for name, label in DURATIONS.items()],
        "flags": [(name, gettext(label), texts[name] == "1") for name, label in FLAGS.items()],
        "choices": [(name, gettext(label), values, texts[name]) for name, (label, values) in CHOICES.items()],
        "numbers": [(name, gettext(label), texts[name]) for name, label in NUMBERS.items()],
        "queue_names": list(Queue.objects.order_by("slug").values_list("slug", flat=True))
        if permissions.is_operator(request.user)
        else _own_queues(request, last or _general(reason)),
        "preview": preview,
        "changed": [] if preview is None else _changed(preview.draft),
        "problem": mark_hidden_plain(problem),
    }
    return render_page(request, "queues/policy.html", context, status=422 if problem and status == 200 else status)


def _own_queues(request: PageRequest, current: Policy | None) -> list[str]:
    """Return the queues that an owner can name: her own, and those of the current policy."""
    owned = set(permissions.owned_queues(request.user).values_list("slug", flat=True))
    named = {current.queue.slug} if current is not None and current.queue is not None else set()
    escalated = {current.escalate_to.slug} if current is not None and current.escalate_to is not None else set()
    return sorted(owned | named | escalated | set(current.queues if current is not None else []))


def _changed(draft: Any) -> list[ShownRule]:
    before = _texts_of(draft.last or Policy())
    after = _texts_of(draft.policy)
    return [
        ShownRule(
            name=name,
            before="" if draft.last is None else _shown_rule(name, before[name]),
            after=_shown_rule(name, after[name]),
        )
        for name in draft.changed
        if name in after
    ]


def _shown_rule(name: str, text: str) -> str:
    return (_("yes") if text else _("no")) if name in FLAGS else text


def _texts_of(policy: Policy) -> dict[str, str]:
    """Return the rules of a policy as texts of the form."""
    further = [
        f"{step['queue']}={duration_text(timedelta(seconds=step['seconds']))}" for step in policy.escalate_further
    ]
    reminders = [duration_text(timedelta(seconds=seconds)) for seconds in policy.remind_before]
    return {
        "queue": policy.queue.slug if policy.queue else "",
        "queues": " ".join(policy.queues),
        "escalate_to": policy.escalate_to.slug if policy.escalate_to else "",
        "escalate_further": " ".join(further),
        "remind_before": " ".join(reminders),
        "on_expiry_allowed": " ".join(policy.on_expiry_allowed),
        **{name: duration_text(getattr(policy, name)) for name in DURATIONS},
        **{name: "1" if getattr(policy, name) else "" for name in FLAGS},
        **{name: str(getattr(policy, name)) for name in (*CHOICES, *NUMBERS)},
    }


def _posted_texts(form: QueryDict) -> dict[str, str]:
    return {name: _text(form, name) for name in POLICY_RULES}


def read_rules(texts: dict[str, str]) -> Any:
    """Return the rules that the form states. Raises ``ProvisioningError`` for a text that is none."""
    rules: dict[str, Any] = {name: texts[name] == "1" for name in FLAGS}
    for name, label in DURATIONS.items():
        rules[name] = _duration(texts[name], gettext(label))
    for name, (label, values) in CHOICES.items():
        if texts[name] not in values:
            problem = _("{label} must be one of: {values}.")
            raise ProvisioningError(problem.format(label=gettext(label), values=", ".join(values)))
        rules[name] = texts[name]
    for name, label in NUMBERS.items():
        if not (texts[name].isascii() and texts[name].isdecimal() and len(texts[name]) < 6):
            raise ProvisioningError(_("{label} must be a whole number.").format(label=gettext(label)))
        rules[name] = int(texts[name])
    allowed = texts["on_expiry_allowed"].split()
    rules |= {"queue": texts["queue"] or None, "queues": texts["queues"].split(), "on_expiry_allowed": allowed}
    rules["escalate_to"] = texts["escalate_to"] or None
    reminders = [_duration(text, _("A reminder")) for text in texts["remind_before"].split()]
    rules["remind_before"] = [whole_seconds(length, "remind_before") for length in reminders]
    steps = [step.partition("=") for step in texts["escalate_further"].split()]
    waits = [(queue, _duration(wait, _("A deadline after an escalation"))) for queue, _sign, wait in steps]
    rules["escalate_further"] = [
        {"queue": queue, "seconds": whole_seconds(length, "escalate_further")} for queue, length in waits
    ]
    return rules


def _duration(text: str, label: str) -> timedelta:
    try:
        return parse_duration(text)
    except InvalidDatetime as fault:
        raise ProvisioningError(f"{label} {fault}.") from None
