"""Forked children: their status, their session, and their end; and the database settings of each kind of process."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reviewqueue.operations import environment, processes
from tests.own_processes import eventually

pytestmark = pytest.mark.django_db(transaction=True)  # no transaction is open, because a fork closes the connections


def fail() -> None:
    raise ZeroDivisionError


@pytest.mark.parametrize(
    ("run", "status"), [(lambda: None, 0), (fail, 1), (lambda: os._exit(3), 3), (lambda: exit(4), 4)]
)
def test_the_status_of_a_forked_child_is_that_of_its_function(run: Callable[[], Any], status: int):
    child = processes.fork(run, title="rq-test")
    assert (child.wait(30), child.poll(), child.returncode) == (status, status, status)
    child.send_signal(signal.SIGTERM)  # after its end: no other process can get it


def test_a_forked_child_has_a_session_an_environment_and_default_signals_of_its_own(tmp_path: Path):
    def write() -> None:
        signals = signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
        (tmp_path / "found").write_text(f"{os.getsid(0) == os.getpid()} {os.environ['OF_THE_CHILD']} {signals}")

    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        assert processes.fork(write, title="rq-test", OF_THE_CHILD="yes").wait(30) == 0
    finally:
        signal.signal(signal.SIGTERM, before)
    assert (tmp_path / "found").read_text() == "True yes True"
    assert "OF_THE_CHILD" not in os.environ


def test_a_forked_child_that_ignores_the_request_to_stop_is_killed_with_its_group(tmp_path: Path):
    def ignore() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        (tmp_path / "ready").touch()
        time.sleep(60)

    child = processes.fork(ignore, title="rq-test")
    eventually(lambda: (tmp_path / "ready").exists(), within=30)
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(0.1)
    assert not processes.stop(child, grace=0.1)
    assert child.returncode == -signal.SIGKILL


def test_a_process_that_becomes_web_gets_a_pool_and_one_that_becomes_a_worker_has_none():
    settings = environment.database("postgresql://rq@db/rq", process="command", pool_size=4)
    assert (settings["OPTIONS"]["application_name"], settings["CONN_MAX_AGE"]) == ("reviewqueue command", 600)
    environment.set_process(settings, "web", pool_size=4)
    assert settings["OPTIONS"]["pool"] == {"min_size": 1, "max_size": 4, "timeout": 10}
    assert (settings["OPTIONS"]["application_name"], settings["CONN_MAX_AGE"]) == ("reviewqueue web", 0)
    environment.set_process(settings, "worker", pool_size=0)
    assert "pool" not in settings["OPTIONS"]
    assert (settings["OPTIONS"]["application_name"], settings["CONN_MAX_AGE"]) == ("reviewqueue worker", 600)
    named = environment.database("postgresql://rq@db/rq?application_name=mine", process="command", pool_size=4)
    environment.set_process(named, "web", pool_size=4)
    assert named["OPTIONS"]["application_name"] == "mine"
