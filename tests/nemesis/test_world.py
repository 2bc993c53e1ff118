"""Killing a process kills everything that it started, in whichever session."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import psutil

from tests.nemesis.world import ManagedProcess
from tests.own_processes import eventually

#: Starts a child in a session of its own, as a worker starts its cluster, which starts another.
PARENT = """
import subprocess, sys, time
sleep = "import time; time.sleep(600)"
child = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {sleep!r}]); {sleep}"
subprocess.Popen([sys.executable, "-c", child], start_new_session=True)
time.sleep(600)
"""


def test_a_kill_leaves_no_child_process(tmp_path: Path):
    kept = ManagedProcess("parent", [sys.executable, "-c", PARENT], dict(os.environ), tmp_path / "log")
    kept.start()
    try:
        family = eventually(lambda: it if len(it := kept._processes()) == 3 else None, within=60)
    finally:
        kept.kill()
    assert eventually(lambda: not [one for one in family if is_alive(one)], within=20)


def is_alive(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
