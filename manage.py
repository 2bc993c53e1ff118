#!/usr/bin/env python3
"""Entry point of every command: `python3 manage.py COMMAND`. Needs Python 3.11 with pip, and nothing else.

Outside the project's own environment it creates `.venv` from the hashed lock files and starts again inside it. There are two
environments: one to run the product, and one that can also run the tests. Until `main` calls Django, only the standard
library is used, and no Django setting is read.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
TOOLS = VENV / ".tools"  # uv is separate, because syncing the environment would remove it
STAMP = VENV / ".installed"
UV_LOCK = ROOT / "bootstrap.lock"
LOCKS = {"run": ROOT / "requirements.lock", "test": ROOT / "requirements-test.lock"}
OLDEST_PYTHON = (3, 11)


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["help"] and arguments[1:2] in (["lock"], ["release"], ["test"]):
        arguments = [arguments[1], "--help"]  # Django has another "test", and neither "lock" nor "release"
    command = arguments[0] if arguments else "help"
    if sys.version_info < OLDEST_PYTHON:
        return refuse(f"Review Queue needs Python 3.11 or newer; this is {sys.version.split()[0]} ({sys.executable}).")
    if command == "lock":
        from reviewqueue.operations.dependency_locks import read_arguments

        read_arguments(
            arguments[1:]
        )  # exits after the help, or for an unknown argument, before anything is installed or written
    if command == "release":
        from reviewqueue.operations.release import read_arguments as read_release_arguments

        read_release_arguments(arguments[1:])
    if os.environ.get("REVIEWQUEUE_ENVIRONMENT") != "own":  # "own": a container or a distribution provides it
        enter_environment("test" if command in ("test", "lock", "release") else "run", arguments)
    if command == "lock":
        from reviewqueue.operations.dependency_locks import write_locks

        return write_locks(root=ROOT, uv=TOOLS / "bin" / "uv")
    if command == "release":
        from reviewqueue.operations.release import main as release

        return release(arguments[1:], root=ROOT, uv=TOOLS / "bin" / "uv")
    if command == "test":  # before Django, which has another "test"
        os.chdir(ROOT)
        from tests.run import main as run_tests

        return run_tests(arguments[1:])
    if command == "demo":
        os.environ.setdefault("REVIEWQUEUE_MODE", "demo")
    from reviewqueue.__main__ import run_django

    return run_django(arguments)


def refuse(sentence: str) -> int:
    print(sentence, file=sys.stderr)
    return 1


# --- the environment --------------------------------------------------------------------------------------------------


def enter_environment(kind: str, arguments: list[str]) -> None:
    """Create the environment unless it is up to date, and start again inside it unless this Python is there already."""
    if not is_current(kind):
        with Path(__file__).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # of two concurrent starts, the second waits here
            if not is_current(kind):
                make_environment(kind)
    if not is_inside():
        os.execv(PYTHON, [str(PYTHON), str(ROOT / "manage.py"), *arguments])  # noqa: S606  the same program, no shell


def is_inside() -> bool:
    """Compare prefixes: `.venv/bin/python` is a link to the system's Python, so the executables are equal."""
    return Path(sys.prefix).resolve() == VENV.resolve()


def is_current(kind: str) -> bool:
    made = STAMP.read_text() if STAMP.is_file() else ""
    return made in (stamp_of(kind), stamp_of("test"))


def stamp_of(kind: str) -> str:
    """Identify everything that the environment was made from; also its path, because scripts in `.venv` contain it."""
    source = hashlib.sha256(UV_LOCK.read_bytes() + LOCKS[kind].read_bytes())
    source.update(repr((sys.version_info[:2], str(ROOT))).encode())
    return f"{kind} {source.hexdigest()}"


def make_environment(kind: str) -> None:
    print("Setting up .venv (first start, or changed lock files) ...", file=sys.stderr, flush=True)
    STAMP.unlink(missing_ok=True)  # if this is interrupted, the next start begins again
    clean = child_environment()
    base = getattr(sys, "_base_executable", None) or sys.executable
    if not is_usable(PYTHON):
        # Without pip, because Debian's python3 has no ensurepip until python3-venv is installed.
        run([base, "-m", "venv", "--clear", "--without-pip", str(VENV)], clean)
    pip = [*find_pip(base, clean), "install", "--quiet", "--disable-pip-version-check", "--root-user-action=ignore"]
    run([*pip, "--no-deps", "--require-hashes", "--upgrade", "--target", str(TOOLS), "-r", str(UV_LOCK)], clean)
    uv = [str(TOOLS / "bin" / "uv"), "pip", "sync", "--quiet", "--require-hashes", "--python", str(PYTHON)]
    run([*uv, str(LOCKS[kind])], clean)
    STAMP.write_text(stamp_of(kind))


def child_environment() -> dict[str, str]:
    """Return our variables without those of another environment, and with pip's user settings disabled."""
    excluded = {"PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__", "UV_PROJECT_ENVIRONMENT"}
    inherited = {name: value for name, value in os.environ.items() if name not in excluded}
    return inherited | {"UV_PYTHON_DOWNLOADS": "never", "PIP_USER": "0", "PIP_REQUIRE_VIRTUALENV": "0"}


def is_usable(python: Path) -> bool:
    """Return False for a copied `.venv`, one of another Python version, or one whose Python is gone."""
    if not python.exists():
        return False
    command = [str(python), "-c", "import sys; print(*sys.version_info[:2], sys.prefix)"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    return answer.stdout.strip() == f"{sys.version_info[0]} {sys.version_info[1]} {VENV}"


def find_pip(base: str, clean: dict[str, str]) -> list[str]:
    """Return the command of any pip. It installs only uv, into a folder, which PEP 668 allows."""

    def works(command: list[str]) -> bool:
        return subprocess.run(command, capture_output=True, env=clean, check=False).returncode == 0

    for python in (base, str(PYTHON)):
        if works([python, "-m", "pip", "--version"]):
            return [python, "-m", "pip"]
    if works([str(PYTHON), "-m", "ensurepip"]):
        return [str(PYTHON), "-m", "pip"]
    sys.exit("This Python has neither pip nor ensurepip. On Debian or Ubuntu, run: apt install python3-pip")


def run(command: list[str], clean: dict[str, str]) -> None:
    if subprocess.run(command, env=clean, check=False).returncode == 0:
        return
    shown = " ".join(word for word in command if not word.startswith("--"))
    sys.exit(
        f"Setting up .venv failed at: {shown}\nThe reason is above. Run the command again; the incomplete .venv is not used."
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
