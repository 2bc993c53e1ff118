"""The page on which a person chooses what to be notified about, how often, and when not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import time
from typing import Any
from zoneinfo import available_timezones

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import AbstractUser
from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import redirect
from django.utils import translation
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from reviewqueue import permissions
from reviewqueue.accounts import languages
from reviewqueue.models import NotificationPreferences, QueueNotificationPreference
from reviewqueue.notifications.kinds import ACCOUNT, NotificationKind
from reviewqueue.pages.rendering import PageRequest, render_page
from reviewqueue.text.times import find_time_zone
from runs.models import Queue

_Frequency = NotificationPreferences.Frequency
_MinRisk = QueueNotificationPreference.MinRisk
#: Kinds that only owners and operators receive.
_OF_OWNERS = (
    NotificationKind.UNKNOWN,
    NotificationKind.HELD,
    NotificationKind.UNDELIVERED,
    NotificationKind.HALTED,
)
_KINDS = [kind for kind in NotificationKind if kind not in ACCOUNT]


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One option of the form."""

    value: str
    label: str
    is_chosen: bool


@dataclass(frozen=True, kw_only=True)
class ChosenPreferences:
    """What the form says, or what is stored. Times are texts, because the form shows a wrong one again."""

    by_mail: bool
    frequency: str
    daily_at: str
    quiet_from: str
    quiet_until: str
    time_zone: str
    language: str
    muted: list[str]
    queues: dict[str, str]


@require_http_methods(["GET", "HEAD", "POST"])
def notifications(request: PageRequest) -> HttpResponse:
    """Show the preferences of the reader, and store what the form says."""
    queues = list(permissions.queues_decided_by(request.user).order_by("slug"))
    if request.method != "POST":
        return _page(request, _stored(request, queues), queues, {})
    chosen = _chosen(request, queues)
    errors = _errors(chosen)
    if errors:
        return _page(request, chosen, queues, errors, status=422)
    _store(request.user, chosen, queues)
    languages.use_in_session(request, chosen.language)
    with translation.override(chosen.language or languages.language_of_browser(request)):
        messages.success(request, _("Your notification settings are saved."))
    return redirect("notifications")


def _stored(request: PageRequest, queues: Iterable[Queue]) -> ChosenPreferences:
    """Return the stored preferences. Without any, the form suggests the browser's time zone."""
    row = NotificationPreferences.objects.filter(person=request.user.pk).first()
    of_queues = QueueNotificationPreference.objects.filter(person=request.user.pk, queue__in=queues)
    browser_zone = request.COOKIES.get("zone", "")
    suggested = browser_zone if find_time_zone(browser_zone) else ""
    shown = row or NotificationPreferences(time_zone=suggested)
    return ChosenPreferences(
        by_mail=shown.by_mail,
        frequency=shown.frequency,
        daily_at=f"{shown.daily_at:%H:%M}",
        quiet_from=f"{shown.quiet_from:%H:%M}" if shown.quiet_from else "",
        quiet_until=f"{shown.quiet_until:%H:%M}" if shown.quiet_until else "",
        time_zone=shown.time_zone or "UTC",
        language=shown.language,
        muted=list(shown.muted),
        queues=dict(of_queues.values_list("queue__slug", "min_risk")),
    )


def _chosen(request: PageRequest, queues: Iterable[Queue]) -> ChosenPreferences:
    form = request.POST
    return ChosenPreferences(
        by_mail=form.get("by_mail") == "1",
        frequency=form.get("frequency", ""),
        daily_at=form.get("daily_at", "").strip(),
        quiet_from=form.get("quiet_from", "").strip(),
        quiet_until=form.get("quiet_until", "").strip(),
        time_zone=form.get("time_zone", "").strip(),
        language=form.get("language", ""),
        muted=[kind.value for kind in _KINDS if kind.value not in form.getlist("kind")],
        queues={queue.slug: form.get(f"queue-{queue.slug}", _MinRisk.LOW) for queue in queues},
    )


def _errors(chosen: ChosenPreferences) -> dict[str, str]:
    """Return a sentence for each wrong field."""
    errors = {}
    if chosen.frequency not in _Frequency.values:
        errors["frequency"] = _("Choose at once, once an hour or once a day.")
    if _time_of(chosen.daily_at) is None:
        errors["daily_at"] = _("Enter a time such as 08:00.")
    if bool(chosen.quiet_from) != bool(chosen.quiet_until):
        errors["quiet_from"] = _("Enter both times of the quiet hours, or none.")
    elif any(value and _time_of(value) is None for value in (chosen.quiet_from, chosen.quiet_until)):
        errors["quiet_from"] = _("Enter times such as 20:00 and 07:00.")
    if find_time_zone(chosen.time_zone) is None:
        errors["time_zone"] = _("Choose a time zone from the list, such as Europe/Berlin.")
    if chosen.language and not languages.is_offered(chosen.language):
        errors["language"] = _("Choose one of the listed languages.")
    if any(value not in _MinRisk.values for value in chosen.queues.values()):
        errors["queues"] = _("Choose one of the listed risks for each queue.")
    return errors


def _time_of(text: str) -> time | None:
    try:
        return time.fromisoformat(text).replace(tzinfo=None, second=0, microsecond=0) if len(text) <= 8 else None
    except ValueError:
        return None


@transaction.atomic
def _store(person: AbstractUser, chosen: ChosenPreferences, queues: Iterable[Queue]) -> None:
    values: dict[str, Any] = {
        "by_mail": chosen.by_mail,
        "frequency": chosen.frequency,
        "daily_at": _time_of(chosen.daily_at),
        "quiet_from": _time_of(chosen.quiet_from) if chosen.quiet_from else None,
        "quiet_until": _time_of(chosen.quiet_until) if chosen.quiet_until else None,
        "time_zone": chosen.time_zone,
        "language": chosen.language,
        "muted": chosen.muted,
    }
    NotificationPreferences.objects.update_or_create(person_id=person.pk, defaults=values)
    for queue in queues:
        QueueNotificationPreference.objects.update_or_create(
            person_id=person.pk, queue=queue, defaults={"min_risk": chosen.queues[queue.slug]}
        )


def _page(
    request: PageRequest,
    chosen: ChosenPreferences,
    queues: Iterable[Queue],
    errors: dict[str, str],
    *,
    status: int = 200,
) -> HttpResponse:
    is_owner = request.user.is_staff
    context = {
        "section": "account",
        "chosen": chosen,
        "errors": errors,
        "sends_mail": bool(settings.EMAIL_HOST),
        "frequencies": _choices(_Frequency.choices, chosen.frequency),
        "kinds": [
            Choice(value=kind.value, label=str(kind.label), is_chosen=kind.value not in chosen.muted)
            for kind in _KINDS
            if is_owner or kind not in _OF_OWNERS
        ],
        "hidden_kinds": [kind.value for kind in _OF_OWNERS if not is_owner and kind.value not in chosen.muted],
        "queues": [
            (queue.slug, _choices(_MinRisk.choices, chosen.queues.get(queue.slug, _MinRisk.LOW))) for queue in queues
        ],
        "languages": _choices([("", _("Same as the browser")), *settings.LANGUAGES], chosen.language),
        "zones": sorted(zone for zone in available_timezones() if "/" in zone or zone == "UTC"),
    }
    return render_page(request, "account/notifications.html", context, status=status)


def _choices(options: Iterable[tuple[Any, Any]], chosen: str) -> list[Choice]:
    return [Choice(value=value, label=str(label), is_chosen=value == chosen) for value, label in options]
