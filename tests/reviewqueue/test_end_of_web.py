"""The end of `web`: readiness turns false first, requests are served meanwhile, and a killed parent leaves no child."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import urllib.error
import urllib.request
from pathlib import Path

import psutil
import pytest

from tests import own_processes

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


def status_of(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=10) as reply:  # noqa: S310
            return int(reply.status)
    except urllib.error.HTTPError as refused:
        return refused.code
    except OSError:
        return 0


def environment_of(folder: Path, port: int, **more: str) -> dict[str, str]:
    base = f"http://127.0.0.1:{port}"
    return own_processes.environment_for(
        own_processes.make_migrated_database(folder), PORT=str(port), BASE_URL=base, WEB_PROCESSES="1", **more
    )


def test_after_sigterm_the_process_is_not_ready_and_still_serves(tmp_path: Path):
    port, log = own_processes.free_port(), tmp_path / "web.log"
    base = f"http://127.0.0.1:{port}"
    environment = environment_of(tmp_path, port, SHUTDOWN_DELAY="3")
    with own_processes.started("web", environment=environment, log=log) as web:
        own_processes.eventually(lambda: status_of(f"{base}/healthz") == 200, within=150, log=log)
        web.terminate()
        own_processes.eventually(lambda: b"shutdown" in body_of(f"{base}/readyz"), within=10, log=log)
        assert status_of(f"{base}/account/login/") == 200
        assert web.wait(60) == 0
        assert status_of(f"{base}/healthz") == 0


def body_of(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=10) as reply:  # noqa: S310
            return bytes(reply.read())
    except urllib.error.HTTPError as refused:
        return refused.read()
    except OSError:
        return b""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child that its parent is gone")
@pytest.mark.parametrize("killed", [pytest.param("web", marks=pytest.mark.long), "granian"])
def test_a_killed_parent_leaves_no_child_that_holds_the_port(tmp_path: Path, killed: str):
    port, log = own_processes.free_port(), tmp_path / "web.log"
    with own_processes.started("web", environment=environment_of(tmp_path, port), log=log) as web:
        own_processes.eventually(lambda: status_of(f"http://127.0.0.1:{port}/healthz") == 200, within=150, log=log)
        children = web.children(recursive=True)
        victim = web if killed == "web" else web.children()[0]
        os.kill(victim.pid, signal.SIGKILL)
        own_processes.eventually(lambda: not any(is_alive(child) for child in children), within=30, log=log)
        with socket.create_server(("127.0.0.1", port)):
            pass


def is_alive(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.status() != psutil.STATUS_ZOMBIE
    return False
