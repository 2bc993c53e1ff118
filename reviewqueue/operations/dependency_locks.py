"""`manage.py lock`: writes the three locks from `pyproject.toml`, with hashes and for every supported Python.

Standard library only: `manage.py` calls it before Django. The files name no registry: any mirror can serve them.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

OLDEST_PYTHON = "3.11"


def read_arguments(arguments: list[str]) -> None:
    """Exit with status 0 after printing the help, or with 2 for an argument: the command takes none."""
    described = "Write bootstrap.lock, requirements.lock and requirements-test.lock from pyproject.toml."
    argparse.ArgumentParser(prog="manage.py lock", description=described, allow_abbrev=False).parse_args(arguments)


def write_locks(*, root: Path, uv: Path) -> int:
    """Write `bootstrap.lock`, `requirements.lock`, `requirements-test.lock`; returns the exit status."""
    found = str(uv) if uv.exists() else shutil.which("uv")
    if not found:
        print("No uv in .venv/.tools and none on PATH.", file=sys.stderr)  # noqa: T201  the door's own voice
        return 1
    run_lock, test_lock = root / "requirements.lock", root / "requirements-test.lock"
    _compile(found, root, source="-", to=root / "bootstrap.lock", text="uv\n")
    _compile(found, root, source="pyproject.toml", to=run_lock)
    # Held to the first, so that a test never runs against other versions than the product does.
    _compile(found, root, source="pyproject.toml", to=test_lock, more=["--extra", "test", "-c", run_lock.name])
    return 0


def _compile(uv: str, root: Path, *, source: str, to: Path, text: str = "", more: list[str] | None = None) -> None:
    command = [uv, "pip", "compile", source, "--universal", "--python-version", OLDEST_PYTHON, "--generate-hashes"]
    plain = ["--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links", "--upgrade", "--quiet"]
    environment = os.environ | {"UV_PYTHON_DOWNLOADS": "never"}
    made = subprocess.run(
        [*command, *plain, *(more or [])], cwd=root, input=text, text=True, capture_output=True, env=environment
    )
    if made.returncode:
        sys.exit(f"{to.name} could not be made:\n{made.stderr}")
    to.write_text(made.stdout)
    print(f"{to.name}: {made.stdout.count('==')} packages")  # noqa: T201  the door's own voice
