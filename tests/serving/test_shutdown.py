"""The end of a process of `web`: long polls end early with a valid answer, and new connections are ignored, not lost."""

from __future__ import annotations

import contextlib
import socket
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reviewqueue.api import long_poll
from reviewqueue.management.commands import web
from reviewqueue.serving import shutdown


@pytest.fixture
def marker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv(shutdown.SHUTDOWN_MARKER, str(tmp_path / "stopping"))
    return tmp_path / "stopping"


def poll(query: Any) -> long_poll.Polled[Any]:
    return long_poll.poll_until(query, enough=bool, seconds=30, agent_id=1, alone=True, check_key=lambda: None)


@pytest.mark.django_db
def test_a_long_poll_ends_with_what_there_is_when_the_process_is_about_to_stop(
    marker: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(long_poll, "_sleep", lambda *_, **__: marker.touch())
    answers = iter([[], ["found while stopping"]])
    assert poll(lambda _: next(answers)) == long_poll.Polled(
        found=["found while stopping"], headers={"Retry-After": "1"}
    )


@pytest.mark.django_db
def test_a_long_poll_that_comes_while_the_process_stops_does_not_wait(marker: Path):
    marker.touch()
    assert poll(lambda _: []) == long_poll.Polled(found=[], headers={"Retry-After": "1"})


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux filters the packets of a listening socket")
def test_a_connection_that_is_open_is_served_and_a_new_one_is_ignored(monkeypatch: pytest.MonkeyPatch):
    with socket.create_server(("127.0.0.1", 0)) as listener, contextlib.ExitStack() as opened:
        address = listener.getsockname()
        # The test's own socket only: the process of the suite has others.
        monkeypatch.setattr(shutdown, "_listening_sockets", lambda: iter([listener.dup()]))
        waiting = opened.enter_context(socket.create_connection(address))
        shutdown.ignore_new_connections()
        with pytest.raises(TimeoutError):
            socket.create_connection(address, timeout=0.2)
        served, _ = listener.accept()
        with served:
            waiting.sendall(b"sent after the filter")
            assert served.recv(100) == b"sent after the filter"


@pytest.mark.skipif(sys.platform != "linux", reason="found in /proc")
def test_the_listening_sockets_of_the_process_are_found():
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as other:
        found = list(shutdown._listening_sockets())
        try:
            assert listener.getsockname() in [each.getsockname() for each in found]
            assert other.fileno() not in [each.fileno() for each in found]
        finally:
            for each in found:
                each.close()


class StoppedAtOnce:
    """A stop that was asked before the first wait; the folder of the marker is gone by then."""

    def wait(self, seconds: float) -> bool:
        return True


@pytest.mark.parametrize("fails", [False, True])
def test_the_server_is_stopped_also_if_its_marker_has_no_folder_or_cannot_be_written(
    monkeypatch, settings, fails: bool
):
    settings.SHUTDOWN_DELAY = 0
    stopped, markers = [], []
    server = SimpleNamespace(poll=lambda: None, wait=lambda seconds: 0, returncode=None)

    def fork(run: object, *, title: str, **environment: str) -> object:
        markers.append(Path(environment[shutdown.SHUTDOWN_MARKER]))
        markers[0].parent.rmdir()
        if fails:
            markers[0].parent.touch()
        return server

    def stop(child: object, *, grace: float) -> bool:
        stopped.append(markers[0].exists())
        return True

    monkeypatch.setattr(web.processes, "fork", fork)
    monkeypatch.setattr(web.processes, "stop", stop)
    monkeypatch.setattr(web.processes, "StopAsked", StoppedAtOnce)
    if fails:
        with pytest.raises(OSError, match=r"exists|directory"):
            web._serve_until_stopped()
        markers[0].parent.unlink(missing_ok=True)
    else:
        assert web._serve_until_stopped() == 0
    assert stopped == [not fails]
