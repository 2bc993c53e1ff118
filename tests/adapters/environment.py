"""The environment of the adapters' libraries, `.venv/.adapters`, which `examples/run.py` makes from its lock when needed.

It is separate from the tests' because engines exclude each other's versions of shared libraries, and because the short
run does not need it.
"""

from __future__ import annotations

import fcntl
import functools
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings

RUN = settings.ROOT / "examples" / "run.py"


@functools.cache
def python() -> Path:
    """Return the Python of the environment. Without one, fail under CI and skip elsewhere, with the reason."""
    example = runpy.run_path(str(RUN))
    with (Path(sys.prefix) / ".adapters.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of two processes of the suite, the second waits here
        try:
            example["install"]()
        except (OSError, subprocess.CalledProcessError) as error:
            problem = f"NOT RUN: the libraries of requirements-adapters.lock cannot be installed: {error}"
            if os.environ.get("CI"):
                pytest.fail(problem)
            pytest.skip(problem)
    found: Path = example["PYTHON"]
    return found


def installed(*names: str) -> Path:
    """Return the first of these programs that is there. Without one, fail under CI and skip elsewhere, with the reason."""
    for name in names:
        if found := shutil.which(name):
            return Path(found)
    problem = f"NOT RUN: {' or '.join(names)} is not installed; Debian has packages: redis-server, rabbitmq-server"
    if os.environ.get("CI"):
        pytest.fail(problem)
    pytest.skip(problem)


@functools.cache
def restate_server() -> Path:
    """Return the server of Restate, installed from npm. Without npm, fail under CI and skip elsewhere, with the reason."""
    folder = RUN.parents[1] / ".venv" / ".adapters-npm"
    found = folder / "node_modules" / "@restatedev" / "restate-server-linux-x64" / "bin" / "restate-server"
    if not found.exists():
        folder.mkdir(exist_ok=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(Path(__file__).parent / "npm" / name, folder)
        try:
            subprocess.run(["npm", "ci", "--ignore-scripts", "--silent"], cwd=folder, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            problem = f"NOT RUN: the server of Restate cannot be installed with npm: {error}"
            if os.environ.get("CI"):
                pytest.fail(problem)
            pytest.skip(problem)
    return found
