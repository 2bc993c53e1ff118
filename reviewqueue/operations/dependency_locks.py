"""`manage.py lock`: write the lock files from `pyproject.toml`, with hashes, for every supported Python.

Standard library only, because `manage.py` runs it before Django. The files name no registry, so any mirror can serve them.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

OLDEST_PYTHON = "3.11"
#: What `manage.py release` runs: the SBOM, the audit of dependencies, the wheel.
RELEASE_TOOLS = "cyclonedx-bom>=7\npip-audit>=2.9\nhatchling>=1.27\n"


def read_arguments(arguments: list[str]) -> None:
    """Exit after printing the help (status 0), or for an unexpected argument (status 2)."""
    description = "Write bootstrap.lock and the four requirements*.lock from the files pyproject.toml."
    argparse.ArgumentParser(prog="manage.py lock", description=description, allow_abbrev=False).parse_args(arguments)


def write_locks(*, root: Path, uv: Path) -> int:
    """Write `bootstrap.lock` and the four `requirements*.lock`. Returns the exit status."""
    found = str(uv) if uv.exists() else shutil.which("uv")
    if not found:
        print("uv is neither in .venv/.tools nor on PATH.", file=sys.stderr)  # noqa: T201  output of the command
        return 1
    run_lock, test_lock = root / "requirements.lock", root / "requirements-test.lock"
    _compile(found, root, source="-", to=root / "bootstrap.lock", text="uv\n")
    _compile(found, root, source="pyproject.toml", to=run_lock)
    # Constrained by the first, so that tests run against the versions of the product.
    _compile(found, root, source="pyproject.toml", to=test_lock, more=["--extra", "test", "-c", run_lock.name])
    # Of its own, because `manage.py release` needs it and neither the product nor its tests do.
    _compile(found, root, source="-", to=root / "requirements-release.lock", text=RELEASE_TOOLS)
    # Of its own, because engines exclude each other's and the tests' versions of shared libraries.
    client = "clients/python/pyproject.toml"
    group = ["--all-extras", "--group", f"{client}:adapters"]
    _compile(found, root, source=client, to=root / "requirements-adapters.lock", more=group)
    return 0


def _compile(uv: str, root: Path, *, source: str, to: Path, text: str = "", more: list[str] | None = None) -> None:
    command = [uv, "pip", "compile", source, "--universal", "--python-version", OLDEST_PYTHON, "--generate-hashes"]
    plain = ["--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links", "--upgrade", "--quiet"]
    environment = os.environ | {"UV_PYTHON_DOWNLOADS": "never"}
    made = subprocess.run(
        [*command, *plain, *(more or [])], cwd=root, input=text, text=True, capture_output=True, env=environment
    )
    if made.returncode:
        sys.exit(f"Could not write {to.name}:\n{made.stderr}")
    to.write_text(made.stdout)
    print(f"{to.name}: {made.stdout.count('==')} packages")  # noqa: T201  output of the command
