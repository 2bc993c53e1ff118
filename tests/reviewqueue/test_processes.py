"""Forked children: their status, their session, and their end; and the database settings of each kind of process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import CommandError
from django.db import connections

from reviewqueue.operations import environment, processes
from tests.own_processes import eventually

pytestmark = pytest.mark.django_db(transaction=True)  # no transaction is open, because a fork closes the connections


@pytest.fixture(autouse=True)
def _threads_of_other_tests(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "threads" not in request.node.name:
        monkeypatch.setattr(processes, "_refuse_other_threads", lambda: None)


def fail() -> None:
    raise ZeroDivisionError


@pytest.mark.parametrize(
    ("run", "status"),
    [
        (lambda: None, 0),
        (fail, 1),
        (lambda: os._exit(3), 3),
        (lambda: sys.exit(4), 4),
        (lambda: sys.exit(), 0),
        (lambda: sys.exit("a fault"), 1),
    ],
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


def test_a_forked_child_reports_a_refusal_in_one_sentence_and_with_its_status(capfd: pytest.CaptureFixture[str]):
    def refuse() -> None:
        raise CommandError("Port 80 is in use.", returncode=3)

    def misconfigured() -> None:
        raise ImproperlyConfigured("PORT must be a number.")

    assert [processes.fork(run, title="rq-test").wait(30) for run in (refuse, misconfigured)] == [3, 1]
    assert sorted(capfd.readouterr().err.splitlines()) == ["PORT must be a number.", "Port 80 is in use."]


@pytest.mark.parametrize("run", [lambda: None, fail])
def test_a_forked_child_whose_output_nothing_reads_does_not_return_into_its_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Callable[[], Any]
):
    reader, writer = os.pipe()
    os.close(reader)
    parent = os.getpid()
    with open(writer, "w", buffering=1 << 16, closefd=False) as broken, monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", broken)
        patched.setattr(sys, "stderr", broken)
        try:
            child = processes.fork(lambda: (broken.write("unread"), run()), title="rq-test")
        finally:
            if os.getpid() != parent:  # it has returned
                (tmp_path / "returned").touch()
                os._exit(9)
        status = child.wait(30)
    os.close(writer)
    assert (status, (tmp_path / "returned").exists()) == (1 if run is fail else 0, False)


def test_a_request_to_stop_is_kept_while_a_child_is_forked(monkeypatch: pytest.MonkeyPatch):
    before = {sign: signal.getsignal(sign) for sign in (signal.SIGTERM, signal.SIGINT)}
    monkeypatch.setattr(processes, "_set_title", lambda title: os.kill(os.getpid(), signal.SIGTERM))
    try:
        stop_asked = processes.StopAsked()
        child = processes.fork(lambda: time.sleep(60), title="rq-test")
        try:
            assert child.wait(20) == -signal.SIGTERM
        finally:
            processes.kill_group(child)
        assert not stop_asked
        assert not signal.pthread_sigmask(signal.SIG_BLOCK, []) & before.keys()
    finally:
        for sign, handler in before.items():
            signal.signal(sign, handler)


def test_the_status_of_a_child_is_known_although_its_parent_was_started_with_sigchld_ignored():
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert processes.fork(lambda: os._exit(3), title="rq-test").wait(30) == 3
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_a_process_with_other_threads_does_not_fork():
    finish = threading.Event()
    other = threading.Thread(target=finish.wait, args=(30,), name="the other one")
    other.start()
    try:
        with pytest.raises(RuntimeError, match=r"other threads cannot fork: .*the other one"):
            processes.fork(lambda: None, title="rq-test")
    finally:
        finish.set()
        other.join()


def test_the_pool_of_connections_is_closed_before_a_fork(monkeypatch: pytest.MonkeyPatch):
    closed: list[str] = []
    for connection in connections.all():
        monkeypatch.setattr(connection, "close_pool", lambda: closed.append("pool"), raising=False)
    assert processes.fork(lambda: None, title="rq-test").wait(30) == 0
    assert closed == ["pool"] * len(connections.all())


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
