"""Dates with a time: the browser's picker and a zone; what is not changed comes back digit for digit."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from ledger.exact_json import ABSENT
from reviewqueue.pages.schema_forms import Field, Submission, build_form, parse_submission
from reviewqueue.pages.schema_forms.fields import Group
from tests.pages.test_rendered_forms import render_form, sent_by

AT = {"type": "string", "format": "date-time"}
TIME = {"type": "string", "format": "time"}


def schema_of(at: Any, *, required: bool = True) -> dict[str, Any]:
    return {"type": "object", "properties": {"at": at}, "required": ["at"] if required else []}


def send(schema: Any, *, proposed: Any = ABSENT, **changed: str) -> Submission:
    """Submit the form as a browser renders it, with some controls changed."""
    form = build_form(schema, proposed=proposed)
    post = sent_by(render_form(form))
    [name] = [name for name in post if name.endswith("at")]
    for control, text in changed.items():
        post[f"{name}.-offset" if control == "zone" else name] = text
    return parse_submission(form, post)


def widget(at: Any, proposed: Any = ABSENT) -> str:
    form = build_form(schema_of(at), proposed=proposed)
    assert isinstance(form.root, Group)
    [field] = [node for node in form.root.members.values() if isinstance(node, Field)]
    return field.widget


@pytest.mark.parametrize(
    "value",
    [
        "2026-12-14T10:00:00+01:00",
        "2026-12-14T10:00:00Z",
        "2026-12-14T10:00:30.50-03:30",
        "2026-12-14T10:00:00.000+00:00",
        "2026-12-14T10:00:00.123456Z",
        "1937-01-01T12:00:27.87+00:20",
        "1990-12-31T23:59:60Z",
        "2026-12-14t10:00:00z",
    ],
)
def test_a_time_that_is_not_changed_comes_back_digit_for_digit(value: str):
    submission = send(schema_of(AT), proposed={"at": value})
    assert (submission.value, submission.problems) == ({"at": value}, ())


def test_a_browser_leaves_out_zeros_and_changes_nothing_by_it():
    for value, local in (
        ("2026-12-14T10:00:00+01:00", "2026-12-14T10:00"),
        ("2026-12-14T10:00:30.500+01:00", "2026-12-14T10:00:30.5"),
    ):
        assert send(schema_of(AT), proposed={"at": value}, at=local).value == {"at": value}


def test_a_changed_time_keeps_the_offset_and_a_changed_zone_keeps_the_time():
    proposed = {"at": "2026-12-14T10:00:00+05:45"}
    assert send(schema_of(AT), proposed=proposed, at="2026-12-14T11:30").value == {"at": "2026-12-14T11:30:00+05:45"}
    assert send(schema_of(AT), proposed=proposed, zone="Z").value == {"at": "2026-12-14T10:00:00Z"}


def test_the_zone_of_the_reader_is_chosen_first_and_gives_the_offset_of_that_day():
    with timezone.override("Europe/Berlin"):
        assert "selected>Europe/Berlin, your time zone</option>" in render_form(build_form(schema_of(AT)))
        assert send(schema_of(AT), at="2026-12-14T10:00").value == {"at": "2026-12-14T10:00:00+01:00"}
        assert send(schema_of(AT), at="2026-07-14T10:00:30").value == {"at": "2026-07-14T10:00:30+02:00"}


@pytest.mark.parametrize(
    ("local", "words"),
    [
        ("2026-03-29T02:30", "does not exist in Europe/Berlin"),
        ("2026-10-25T02:30", "choose UTC+02:00 or UTC+01:00"),
        ("0001-01-01T00:00", "choose an offset"),
    ],
)
def test_a_time_without_one_offset_in_its_zone_is_not_guessed(local: str, words: str):
    [problem] = send(schema_of(AT), at=local, zone="Europe/Berlin").problems
    assert problem.pointer == "/at"
    assert words in problem.message


@pytest.mark.parametrize("zone", ["", "Nowhere/City", "+25:00", "../etc/passwd", "\x00"])
def test_an_invented_zone_is_refused(zone: str):
    [problem] = send(schema_of(AT), at="2026-12-14T10:00", zone=zone).problems
    assert problem.pointer == "/at"


@pytest.mark.parametrize("text", ["2026-12-14", "14.12.2026 10:00", "2026-13-14T10:00", "2026-12-14T10:00+01:00"])
def test_an_invalid_time_is_shown_again_as_it_was_entered(text: str):
    submission = send(schema_of(AT), at=text)
    assert submission.problems
    html = render_form(submission.form, submission)
    assert f'value="{text}"' in html
    assert 'type="datetime-local"' not in html


def test_a_whole_time_with_its_offset_can_be_sent_without_the_picker():
    assert send(schema_of(AT), at="2026-12-14T10:00:00.5+01:00").value == {"at": "2026-12-14T10:00:00.5+01:00"}


def test_an_optional_time_that_is_left_empty_is_left_out_whatever_the_zone():
    assert send(schema_of(AT, required=False), zone="+05:30").value == {}


def test_a_time_of_day_has_a_picker_and_an_offset():
    assert send(schema_of(TIME), proposed={"at": "10:00:00+01:00"}).value == {"at": "10:00:00+01:00"}
    assert send(schema_of(TIME), at="09:30", zone="+02:00").value == {"at": "09:30:00+02:00"}
    assert send(schema_of(TIME), at="09:30", zone="Europe/Berlin").problems


def test_a_schema_with_more_rules_than_the_format_keeps_its_text_field():
    assert widget(AT) == "date-time"
    assert widget({**AT, "description": "When", "default": "2026-12-14T10:00:00Z"}) == "date-time"
    assert widget({**AT, "pattern": "Z$"}) == "line"
    assert widget(AT, {"at": "1990-12-31T23:59:60Z"}) == "line"
