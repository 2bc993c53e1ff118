"""The environment of the adapters' libraries, `.venv/.adapters`, which `examples/run.py` makes from its lock when needed.

It is separate from the tests' because engines exclude each other's versions of shared libraries, and because the short
run does not need it.
"""

from __future__ import annotations

import fcntl
import functools
import os
import runpy
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
