"""A restored backup is noticed by the host that has seen more, before anything goes on from it."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from reviewqueue.operations import rollback_detection, supervisor
from reviewqueue.operations.doctor import examine
from runs.models import Agent, Event
from tests import builders, own_processes
from tests.unguarded import without_guards

pytestmark = [pytest.mark.django_db, pytest.mark.proves(23)]


@pytest.fixture(autouse=True)
def marks(settings, tmp_path: Path) -> Path:
    settings.HIGH_WATER_FILE = str(tmp_path / "kept" / "high-water.json")
    return Path(settings.HIGH_WATER_FILE)


def a_backup_is_restored(marks: Path) -> None:
    """The host has seen five events that the database does not have."""
    builders.a_waiting_interrupt()
    rollback_detection.remember()
    seen = json.loads(marks.read_text())
    marks.write_text(json.dumps({name: event + 5 for name, event in seen.items()}))


def test_a_database_that_goes_on_is_nothing_to_tell():
    for _ in range(2):
        builders.a_waiting_interrupt()
        rollback_detection.remember()
        assert rollback_detection.look() is None


def test_web_does_not_start_and_a_worker_waits_until_somebody_says_it(settings, marks: Path):
    settings.HOST, settings.PORT = "127.0.0.1", own_processes.free_port()
    a_backup_is_restored(marks)
    rollback_detection.remember()  # a worker that ran through it does not hide it

    with pytest.raises(CommandError, match="Not served: the database has gone back: this host has seen event"):
        call_command("web")
    assert supervisor.what_is_missing().startswith("the database has gone back")
    assert "restored" in [finding.check for finding in examine()]

    call_command("restored")
    assert rollback_detection.look() is None
    assert supervisor.what_is_missing() == ""
    assert "restored" not in [finding.check for finding in examine()]


def test_nothing_is_let_go_on_before_everything_was_held(marks: Path):
    a_backup_is_restored(marks)
    builders.a_person("own@example.org", "agent-owners")
    go_on = {"go_on": Agent.objects.get().slug, "by": "own@example.org", "reason": "compared"}
    with pytest.raises(CommandError, match=r"Nothing goes on yet: .* python3 manage.py restored, without --go-on"):
        call_command("restored", **go_on)
    rollback_detection.begin_anew()
    said = io.StringIO()
    call_command("restored", **go_on, stdout=said)
    assert "is held as restored: what was held has been let go, or `restored` has not run yet" in said.getvalue()


def test_a_new_database_under_the_old_name_is_no_backup():
    builders.a_waiting_interrupt()
    rollback_detection.remember()
    with without_guards():
        Event.objects.all().delete()
    assert rollback_detection.look() is None
    rollback_detection.remember()
    builders.a_waiting_interrupt()
    assert rollback_detection.look() is None


@pytest.mark.parametrize("broken", ["", "{", "[1]", '{"x": "y"}', "null", '{"x": 1e999}', "[" * 100_000])
def test_a_mark_that_cannot_be_read_is_none(marks: Path, broken: str):
    builders.a_waiting_interrupt()
    marks.parent.mkdir()
    marks.write_text(broken)
    assert rollback_detection.look() is None
    rollback_detection.remember()
    assert list(json.loads(marks.read_text()).values()) == [Event.objects.latest("pk").pk]


def test_a_device_is_not_replaced(settings, caplog):
    settings.HIGH_WATER_FILE = os.devnull
    rollback_detection.remember()
    assert "it is no file of ours" in caplog.text
    assert not Path(os.devnull).is_file()


def test_a_folder_that_cannot_be_written_is_told_to_the_log(marks: Path, caplog):
    marks.parent.write_text("a file where a folder should be")
    rollback_detection.remember()
    assert "can't note how far the database has come" in caplog.text
