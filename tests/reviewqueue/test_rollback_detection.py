"""A host that has seen newer events detects a restored backup before any run continues."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from reviewqueue.operations import rollback_detection, supervisor
from reviewqueue.operations.doctor import run_checks
from runs.models import Agent, Event
from tests import builders, own_processes
from tests.unguarded import without_triggers

pytestmark = [pytest.mark.django_db, pytest.mark.proves(23)]


@pytest.fixture(autouse=True)
def marks(settings, tmp_path: Path) -> Path:
    settings.HIGH_WATER_FILE = str(tmp_path / "marks" / "high-water.json")
    return Path(settings.HIGH_WATER_FILE)


def a_backup_is_restored(marks: Path) -> None:
    """The host has seen five events that the database does not have."""
    builders.a_waiting_interrupt()
    rollback_detection.record_high_water()
    seen = json.loads(marks.read_text())
    marks.write_text(json.dumps({name: event + 5 for name, event in seen.items()}))


def test_a_database_with_newer_events_is_not_a_rollback():
    for _ in range(2):
        builders.a_waiting_interrupt()
        rollback_detection.record_high_water()
        assert rollback_detection.find_rollback() is None


def test_web_does_not_start_and_a_worker_waits_until_mark_restored_has_run(settings, marks: Path):
    settings.HOST, settings.PORT = "127.0.0.1", own_processes.free_port()
    a_backup_is_restored(marks)
    rollback_detection.record_high_water()  # a worker that ran meanwhile does not hide it

    with pytest.raises(
        CommandError, match=r"web did not start\. The database was rolled back: this host has seen event"
    ):
        call_command("web")
    assert supervisor.find_start_obstacle().startswith("The database was rolled back")
    assert "restored" in [finding.check for finding in run_checks()]

    call_command("mark_restored")
    assert rollback_detection.find_rollback() is None
    assert supervisor.find_start_obstacle() == ""
    assert "restored" not in [finding.check for finding in run_checks()]


def test_no_hold_is_lifted_before_every_open_run_is_on_hold(marks: Path):
    a_backup_is_restored(marks)
    builders.a_person("own@example.org", "agent-owners")
    lift = {"lift_holds": Agent.objects.get().slug, "by": "own@example.org", "reason": "compared"}
    with pytest.raises(
        CommandError, match=r"No hold was lifted\. .* python3 manage.py mark_restored first, without --lift-holds"
    ):
        call_command("mark_restored", **lift)
    rollback_detection.reset_high_water()
    output = io.StringIO()
    call_command("mark_restored", **lift, stdout=output)
    assert "is on hold: the holds are lifted, or `mark_restored` has not run yet" in output.getvalue()


def test_a_new_database_under_the_old_name_is_not_a_rollback():
    builders.a_waiting_interrupt()
    rollback_detection.record_high_water()
    with without_triggers():
        Event.objects.all().delete()
    assert rollback_detection.find_rollback() is None
    rollback_detection.record_high_water()
    builders.a_waiting_interrupt()
    assert rollback_detection.find_rollback() is None


@pytest.mark.parametrize("broken", ["", "{", "[1]", '{"x": "y"}', "null", '{"x": 1e999}', "[" * 100_000])
def test_an_unreadable_mark_is_ignored(marks: Path, broken: str):
    builders.a_waiting_interrupt()
    marks.parent.mkdir()
    marks.write_text(broken)
    assert rollback_detection.find_rollback() is None
    rollback_detection.record_high_water()
    timeline = [number for number in [rollback_detection._timeline()] if number]  # of PostgreSQL
    assert list(json.loads(marks.read_text()).values()) == [Event.objects.latest("pk").pk, *timeline]


def test_a_device_is_not_replaced(settings, caplog):
    settings.HIGH_WATER_FILE = os.devnull
    rollback_detection.record_high_water()
    assert "not a regular file" in caplog.text
    assert not Path(os.devnull).is_file()


def test_a_folder_that_cannot_be_written_is_logged(marks: Path, caplog):
    marks.parent.write_text("a file where a folder should be")
    rollback_detection.record_high_water()
    assert "Cannot record the high-water mark" in caplog.text


@pytest.mark.postgresql
def test_a_promoted_standby_is_reported_until_it_is_accepted(marks: Path, monkeypatch: pytest.MonkeyPatch):
    builders.a_waiting_interrupt()
    rollback_detection.record_high_water()
    assert rollback_detection.find_promotion() is None
    present = rollback_detection._timeline()
    monkeypatch.setattr(rollback_detection, "_timeline", lambda: present + 1)
    builders.a_waiting_interrupt()
    rollback_detection.record_high_water()  # newer events than the lost ones do not hide it
    [found] = [finding for finding in run_checks() if finding.check == "restored"]
    assert f"was {present}, and is {present + 1}" in found.message
    assert found.is_wrong

    call_command("mark_restored", nothing_lost=True)
    assert rollback_detection.find_promotion() is None
    assert "restored" not in [finding.check for finding in run_checks()]


@pytest.mark.postgresql
def test_a_promotion_is_found_under_another_host_name_and_a_new_cluster_is_none(
    marks: Path, monkeypatch: pytest.MonkeyPatch
):
    builders.a_waiting_interrupt()
    monkeypatch.setattr(rollback_detection, "_timeline", lambda: 4)
    marks.parent.mkdir()
    marks.write_text(json.dumps({rollback_detection._old_timeline_id(): 3}))  # of an earlier version
    rollback_detection.record_high_water()
    monkeypatch.setattr(rollback_detection, "_database_id", lambda: "of another host")
    found = rollback_detection.find_promotion()
    assert found is not None
    assert (found.seen, found.present) == (3, 4)
    assert "if mark_restored already ran on another host" in found.message

    monkeypatch.setattr(rollback_detection, "_timeline", lambda: 1)  # a new cluster under the old name
    assert rollback_detection.find_promotion() is None
    rollback_detection.record_high_water()
    monkeypatch.setattr(rollback_detection, "_timeline", lambda: 2)
    found = rollback_detection.find_promotion()
    assert found is not None
    assert (found.seen, found.present) == (1, 2)


def test_a_rolled_back_database_is_not_accepted_as_one_that_lost_nothing(marks: Path):
    a_backup_is_restored(marks)
    with pytest.raises(CommandError, match="Something was lost"):
        call_command("mark_restored", nothing_lost=True)
    assert rollback_detection.find_rollback() is not None
