"""Times and durations on the wire: RFC 3339 with an offset, ISO 8601 durations, and nothing ambiguous."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.datetimes import InvalidDatetime, format_datetime, parse_datetime
from reviewqueue.api.serializers.fields import DurationField
from reviewqueue.datetimes import duration_text, parse_duration


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-12-01T12:00:00+01:00", "2026-12-01T11:00:00.000000Z"),
        ("2026-12-01t12:00:00z", "2026-12-01T12:00:00.000000Z"),
        ("2026-12-01T12:00:00.5Z", "2026-12-01T12:00:00.500000Z"),
        ("2026-12-01T12:00:00.123456789Z", "2026-12-01T12:00:00.123456Z"),
        ("2026-12-01T12:00:00-00:00", "2026-12-01T12:00:00.000000Z"),
        ("2026-12-01T12:00:00-23:59", "2026-12-02T11:59:00.000000Z"),
        ("2024-02-29T00:00:00Z", "2024-02-29T00:00:00.000000Z"),
    ],
)
def test_a_time_with_its_offset_is_taken(text, moment):
    assert format_datetime(parse_datetime(text)) == moment


@pytest.mark.parametrize(
    "text",
    [
        "2026-12-01T12:00:00",
        "2026-12-01",
        "2026-12-01 12:00:00Z",
        "2026-12-01T24:00:00Z",
        "2026-12-31T23:59:60Z",
        "2026-02-29T00:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-12-01T12:00Z",
        "2026-12-01T12:00:00.Z",
        "2026-12-01T12:00:00.1234567890Z",
        "2026-12-01T12:00:00,5Z",
        "2026-12-01T12:00:00+24:00",
        "2026-12-01T12:00:00+01:60",
        "2026-12-01T12:00:00+0100",
        "2026-12-01T12:00:00+01",
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00+01:00",
        "9999-12-31T23:59:59-01:00",
        "٢٠٢٦-12-01T12:00:00Z",
        "20261201T120000Z",
        "2026-12-01T12:00:00Z\n",
        "1764590400",
        "tomorrow",
        "",
    ],
)
def test_anything_else_is_not(text):
    with pytest.raises(InvalidDatetime):
        parse_datetime(text)


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("P2D", timedelta(days=2)),
        ("PT36H", timedelta(hours=36)),
        ("P1DT2H3M4.5S", timedelta(days=1, hours=2, minutes=3, seconds=4.5)),
        ("PT0.000001S", timedelta(microseconds=1)),
        ("P0DT1S", timedelta(seconds=1)),
    ],
)
def test_a_duration_is_taken(text, length):
    assert parse_duration(text) == length


@pytest.mark.parametrize("text", ["PT1000000000000S", "P1000000000D", "PT9999999999999999999S"])
def test_a_duration_beyond_the_calendar_is_too_long(text):
    with pytest.raises(InvalidDatetime, match="is too long"):
        parse_duration(text)


@given(st.text(alphabet="PT0123456789DHMS.", max_size=12))
def test_the_documented_pattern_accepts_what_is_read(text):
    pattern = DurationField().json_schema(lambda _: {})["pattern"]
    try:
        parse_duration(text)
        is_valid = True
    except InvalidDatetime as invalid:
        is_valid = str(invalid) in {"is too long", "must be greater than zero"}
    assert bool(re.search(pattern, text)) == is_valid


NO_LENGTHS = ["P", "PT", "P1DT", "PT0S", "P0D", "-P1D", "P-1D", "P1.5D", "1D", "P1d", "PT1H2D", "", "PT1S ", "P٣D"]
WHO_KNOWS = ["P1Y", "P1M", "P1W", "P9999999999D", "P999999999DT999999999H"]


@pytest.mark.parametrize("text", NO_LENGTHS + WHO_KNOWS)
def test_a_duration_of_nothing_or_of_who_knows_how_long_is_not(text):
    with pytest.raises(InvalidDatetime):
        parse_duration(text)


@given(st.datetimes(min_value=datetime(2, 1, 1), max_value=datetime(9998, 1, 1), timezones=st.just(UTC)))  # noqa: DTZ001
def test_a_time_that_was_written_is_read_again(moment):
    assert parse_datetime(format_datetime(moment)) == moment


@given(st.timedeltas(min_value=timedelta(microseconds=1), max_value=timedelta(days=36525)))
def test_a_duration_that_was_written_is_read_again(length):
    assert parse_duration(duration_text(length)) == length
