"""Preferences of recipients: which notices a person wants by mail, and when: at once, in a digest, after quiet hours."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, tzinfo

from django.conf import settings
from django.contrib.auth.models import AbstractUser

from reviewqueue.models import NotificationPreferences, QueueNotificationPreference
from reviewqueue.notifications.kinds import ACCOUNT, OF_QUEUE
from reviewqueue.notifications.recipients import Notice
from reviewqueue.text.times import find_time_zone
from runs.models import Interrupt
from runs.states import RISK_RANK

_DAYS_SEARCHED = 3  # a local time that a clock change skips exists on the next day
_MinRisk = QueueNotificationPreference.MinRisk
_Frequency = NotificationPreferences.Frequency


@dataclass(frozen=True, kw_only=True)
class Timing:
    """When the message of a notification is created, and whether it shares it with others."""

    compose_at: datetime
    in_digest: bool


def preferences_of(people: Iterable[AbstractUser]) -> dict[int, NotificationPreferences]:
    """Return the stored preferences of these people by primary key; a person without a row has the defaults."""
    return {
        row.person_id: row
        for row in NotificationPreferences.objects.filter(person__in=[person.pk for person in people])
    }


def wanting_mail(notice: Notice, preferences: dict[int, NotificationPreferences]) -> list[AbstractUser]:
    """Return the people of a notice who want it by mail."""
    wanting = [person for person in notice.people if person.email and _wants(notice, preferences.get(person.pk))]
    if notice.queue is None or notice.interrupt is None or notice.personal or notice.kind not in OF_QUEUE:
        return wanting
    rows = QueueNotificationPreference.objects.filter(queue=notice.queue, person__in=[one.pk for one in wanting])
    min_risks = dict(rows.values_list("person", "min_risk"))
    return [one for one in wanting if reaches(notice.interrupt, min_risks.get(one.pk, _MinRisk.LOW))]


def _wants(notice: Notice, preferences: NotificationPreferences | None) -> bool:
    if preferences is None or notice.kind in ACCOUNT:
        return True
    return preferences.by_mail and notice.kind not in preferences.muted


def reaches(interrupt: Interrupt, min_risk: str) -> bool:
    """Return whether the risk of a request is at least ``min_risk``, a ``QueueNotificationPreference.MinRisk``."""
    return min_risk != _MinRisk.NONE and RISK_RANK[interrupt.risk] <= RISK_RANK[min_risk]


def zone_of(preferences: NotificationPreferences | None) -> tzinfo:
    return (find_time_zone(preferences.time_zone) if preferences is not None else None) or UTC


def language_of(preferences: NotificationPreferences | None) -> str:
    """Return the language of mail to a person; without a choice, or if it is no longer offered, the default."""
    code = preferences.language if preferences is not None else ""
    return code if code in dict(settings.LANGUAGES) else settings.LANGUAGE_CODE


def timing_of(preferences: NotificationPreferences | None, *, now: datetime) -> Timing:
    """Return when a notification of ``now`` is sent. A digest whose time is in quiet hours waits for their end."""
    if preferences is None:
        return Timing(compose_at=now, in_digest=False)
    zone, at = zone_of(preferences), now
    if preferences.frequency == _Frequency.HOURLY:
        at = (now + timedelta(hours=1)).replace(minute=0, second=0, microsecond=0)
    elif preferences.frequency == _Frequency.DAILY:
        at = _next(preferences.daily_at, after=now, zone=zone)
    at = _after_quiet_hours(preferences, at, zone)
    return Timing(compose_at=at, in_digest=preferences.frequency != _Frequency.AT_ONCE or at > now)


def _next(clock_time: time, *, after: datetime, zone: tzinfo) -> datetime:
    """Return the first time after ``after`` at which clocks in the zone show ``clock_time``."""
    day = after.astimezone(zone).date()
    for later in range(_DAYS_SEARCHED):
        at = datetime.combine(day + timedelta(days=later), clock_time, tzinfo=zone).astimezone(UTC)
        if at > after:
            return at
    raise AssertionError(f"{clock_time} follows {after} within two days")


def _after_quiet_hours(preferences: NotificationPreferences, at: datetime, zone: tzinfo) -> datetime:
    begin, end = preferences.quiet_from, preferences.quiet_until
    if begin is None or end is None or begin == end:
        return at
    local = at.astimezone(zone).time()
    is_quiet = begin <= local < end if begin < end else (local >= begin or local < end)
    return _next(end, after=at, zone=zone) if is_quiet else at
