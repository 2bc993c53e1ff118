"""Durations and times as text, in the reader's zone and across clock changes."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from django.conf import settings
from django.contrib.admin.utils import display_for_value
from django.http import HttpRequest, HttpResponse
from django.template import Context, Template
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from reviewqueue.middleware import activate_browser_time_zone
from reviewqueue.templatetags.times import duration_label, since
from reviewqueue.text import times

NOW = datetime(2026, 11, 30, 13, 22, tzinfo=UTC)


@pytest.mark.parametrize(
    ("duration", "words"),
    [
        (timedelta(hours=2, minutes=10), "2 h 10 min"),
        (timedelta(hours=1, minutes=5, seconds=59), "1 h 05 min"),
        (timedelta(hours=4), "4 h 00 min"),
        (timedelta(minutes=38), "38 min"),
        (timedelta(seconds=59.9), "59 s"),
        (timedelta(days=2, hours=21, minutes=30), "2 d 21 h"),
        (timedelta(days=1, minutes=59), "1 d"),
        (timedelta(0), "0 s"),
    ],
)
def test_a_duration_has_its_two_largest_units(duration: timedelta, words: str) -> None:
    assert times.duration_label(duration) == words


@pytest.mark.parametrize(
    ("left", "words", "soon"),
    [
        (timedelta(hours=1), "1 h 00 min", False),
        (timedelta(minutes=59, seconds=59), "59 min", True),
        (timedelta(0), "over", True),
        (timedelta(minutes=-5), "over since 5 min", True),
    ],
)
def test_a_deadline_is_red_only_under_one_hour_and_over_exactly_at_its_time(
    left: timedelta, words: str, soon: bool
) -> None:
    drawn = Template("{% load times %}{% time_left deadline %}").render(Context({"deadline": NOW + left, "now": NOW}))
    assert words in drawn
    assert ('class="when soon"' in drawn) is soon
    assert ("<svg" in drawn) is soon


def test_the_two_hours_that_a_clock_change_repeats_differ() -> None:
    with timezone.override(ZoneInfo("Europe/Oslo")):
        first, second = datetime(2026, 10, 25, 0, 30, tzinfo=UTC), datetime(2026, 10, 25, 1, 30, tzinfo=UTC)
        assert times.datetime_label(first, short=True) == "25 Oct 2026 02:30 CEST"
        assert times.datetime_label(second, short=True) == "25 Oct 2026 02:30 CET"


def test_a_deadline_beyond_a_clock_change_is_shown_with_the_offset_of_its_own_day() -> None:
    deadline = datetime(2026, 3, 29, 21, 59, tzinfo=UTC)
    with timezone.override(ZoneInfo("Europe/Oslo")):
        for now in (deadline - timedelta(days=2), deadline - timedelta(hours=1)):
            assert times.datetime_label(deadline, now=now).endswith("23:59 CEST")


def test_a_time_says_its_zone_and_utc_when_pointed_at() -> None:
    with timezone.override(ZoneInfo("Europe/Berlin")):
        drawn = times.datetime_element(NOW + timedelta(hours=2, minutes=10), now=NOW)
    assert ">today 16:32 CET</time>" in drawn
    assert 'datetime="2026-11-30T16:32:00+01:00"' in drawn
    assert 'title="2026-11-30 15:32:00 UTC"' in drawn


def test_a_zone_without_a_name_is_shown_as_its_offset() -> None:
    with timezone.override(ZoneInfo("America/Sao_Paulo")):
        assert times.datetime_label(NOW, now=NOW) == "today 10:22 UTC-03"


@pytest.mark.parametrize(
    ("cookie", "hour"), [("Asia/Tokyo", "22:22"), ("", "13:22"), ("../../etc/passwd", "13:22"), ("Europe", "13:22")]
)
def test_a_page_uses_the_zone_of_its_browser_if_the_zone_exists(cookie: str, hour: str) -> None:
    request = HttpRequest()
    request.COOKIES["zone"] = cookie
    page = activate_browser_time_zone(lambda request: HttpResponse(times.datetime_label(NOW)))(request)
    assert hour in page.content.decode()


@given(st.text())
def test_no_zone_name_can_break_a_page(name: str) -> None:
    times.find_time_zone(name)


def test_a_missing_time_is_never_and_a_missing_deadline_nothing() -> None:
    template = Template("{% load times %}[{% datetime at %}][{% time_left at %}]")
    assert template.render(Context({"at": None, "now": NOW})) == '[<span class="faint">never</span>][]'


def test_on_pages_a_number_and_its_unit_stay_on_one_line():
    assert (
        duration_label(timedelta(hours=3, minutes=12))
        == "3\N{NO-BREAK SPACE}h\N{NO-BREAK SPACE}12\N{NO-BREAK SPACE}min"
    )
    assert since(NOW, NOW + timedelta(days=2)) == "2\N{NO-BREAK SPACE}d"


def test_a_time_of_a_record_has_its_seconds_and_its_zone() -> None:
    with timezone.override(ZoneInfo("Europe/Berlin")):
        drawn = Template("{% load times %}{% exact_time at %}").render(Context({"at": NOW}))
    assert ">2026-11-30 14:22:00 CET</time>" in drawn
    assert 'title="2026-11-30 13:22:00 UTC"' in drawn


def test_every_time_that_django_formats_has_its_zone() -> None:
    with timezone.override(ZoneInfo("Europe/Berlin")):
        assert Template("{{ at }}").render(Context({"at": NOW})) == "2026-11-30 14:22:00 CET"
        assert display_for_value(NOW, "-") == "2026-11-30 14:22:00 CET"


def test_templates_render_times_by_the_tags_with_a_zone() -> None:
    formats = {
        (template.name, kind)
        for template in Path(settings.TEMPLATES[0]["DIRS"][0]).rglob("*.html")
        for kind in re.findall(r"\|(?:date|time):.([^'\"]*)", template.read_text())
    }
    assert {kind for _, kind in formats} == {"c"}, formats
