#!/usr/bin/env python3
"""The one door: `python3 manage.py COMMAND` is all there is to know. Needs Python 3.11 with pip, and nothing else.

Started outside the project's own environment it makes `.venv` from the hashed locks, then starts again inside it. Two
environments: what runs the product, and that plus what tests it; the second serves for both. Until `main` hands over,
only the standard library is used, and no Django setting is read.
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
TOOLS = VENV / ".tools"  # uv lives apart: what is synced into the environment must not remove it
STAMP = VENV / ".installed"
UV_LOCK = ROOT / "bootstrap.lock"
LOCKS = {"run": ROOT / "requirements.lock", "test": ROOT / "requirements-test.lock"}
OLDEST_PYTHON = (3, 11)


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["help"] and arguments[1:2] in (["lock"], ["test"]):
        arguments = [arguments[1], "--help"]  # Django has a "test" of its own, and no "lock"
    command = arguments[0] if arguments else "help"
    if sys.version_info < OLDEST_PYTHON:
        return refuse(f"Review Queue needs Python 3.11 or newer; this is {sys.version.split()[0]} ({sys.executable}).")
    if command == "lock":
        from reviewqueue.operations.dependency_locks import read_arguments

        read_arguments(arguments[1:])  # help, or an unknown argument, ends here: nothing is installed or written
    if os.environ.get("REVIEWQUEUE_ENVIRONMENT") != "own":  # "own": a container or a distribution has made it
        enter_environment("test" if command in ("test", "lock") else "run", arguments)
    if command == "lock":
        from reviewqueue.operations.dependency_locks import write_locks

        return write_locks(root=ROOT, uv=TOOLS / "bin" / "uv")
    if command == "test":  # taken before Django sees it: its own "test" is not ours
        os.chdir(ROOT)
        from tests.run import main as run_tests

        return run_tests(arguments[1:])
    if command == "demo":
        os.environ.setdefault("REVIEWQUEUE_MODE", "demo")
    return hand_over_to_django(arguments)


def hand_over_to_django(arguments: list[str]) -> int:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "reviewqueue.settings")
    if not arguments or arguments[0] == "help" or {"-h", "--help"} & set(arguments):
        os.environ.setdefault("SECRET_KEY", os.urandom(32).hex())  # whoever asks for help signs nothing
    try:
        from django.core.exceptions import ImproperlyConfigured
        from django.core.management import execute_from_command_line
    except ImportError:
        return refuse("Django is not installed here, though REVIEWQUEUE_ENVIRONMENT=own says that you installed it.")
    try:
        execute_from_command_line(["manage.py", *arguments])
    except ImproperlyConfigured as problem:
        return refuse(str(problem))
    return 0


def refuse(sentence: str) -> int:
    print(sentence, file=sys.stderr)
    return 1


# --- the environment --------------------------------------------------------------------------------------------------


def enter_environment(kind: str, arguments: list[str]) -> None:
    """Return at once when inside a current one; otherwise make it and start again inside."""
    if not is_current(kind):
        with Path(__file__).open() as door:
            fcntl.flock(door, fcntl.LOCK_EX)  # two terminals at once: the second waits here, then finds it made
            if not is_current(kind):
                make_environment(kind)
    if not is_inside():
        os.execv(PYTHON, [str(PYTHON), str(ROOT / "manage.py"), *arguments])  # noqa: S606  the same program, no shell


def is_inside() -> bool:
    """By prefix: `.venv/bin/python` is a link to the system's Python, so the executables say nothing."""
    return Path(sys.prefix).resolve() == VENV.resolve()


def is_current(kind: str) -> bool:
    made = STAMP.read_text() if STAMP.is_file() else ""
    return made in (stamp_of(kind), stamp_of("test"))


def stamp_of(kind: str) -> str:
    """Names everything the environment came from. The path too: scripts in a moved `.venv` point to where it was."""
    source = hashlib.sha256(UV_LOCK.read_bytes() + LOCKS[kind].read_bytes())
    source.update(repr((sys.version_info[:2], str(ROOT))).encode())
    return f"{kind} {source.hexdigest()}"


def make_environment(kind: str) -> None:
    print("Setting up .venv (the first start, or a lock has changed) ...", file=sys.stderr, flush=True)
    STAMP.unlink(missing_ok=True)  # killed from here on, the next start begins again
    clean = child_environment()
    base = getattr(sys, "_base_executable", None) or sys.executable
    if not is_usable(PYTHON):
        # Without pip, since Debian's python3 has no ensurepip until python3-venv is installed.
        run([base, "-m", "venv", "--clear", "--without-pip", str(VENV)], clean)
    pip = [*find_pip(base, clean), "install", "--quiet", "--disable-pip-version-check", "--root-user-action=ignore"]
    run([*pip, "--no-deps", "--require-hashes", "--upgrade", "--target", str(TOOLS), "-r", str(UV_LOCK)], clean)
    uv = [str(TOOLS / "bin" / "uv"), "pip", "sync", "--quiet", "--require-hashes", "--python", str(PYTHON)]
    run([*uv, str(LOCKS[kind])], clean)
    STAMP.write_text(stamp_of(kind))


def child_environment() -> dict[str, str]:
    """Ours, without what would send the children elsewhere: another environment's variables, a user's pip habits."""
    misleading = {"PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__", "UV_PROJECT_ENVIRONMENT"}
    kept = {name: value for name, value in os.environ.items() if name not in misleading}
    return kept | {"UV_PYTHON_DOWNLOADS": "never", "PIP_USER": "0", "PIP_REQUIRE_VIRTUALENV": "0"}


def is_usable(python: Path) -> bool:
    """False for a `.venv` that was copied here, or belongs to a Python of another version or one that is gone."""
    if not python.exists():
        return False
    question = [str(python), "-c", "import sys; print(*sys.version_info[:2], sys.prefix)"]
    answer = subprocess.run(question, capture_output=True, text=True, check=False)
    return answer.stdout.strip() == f"{sys.version_info[0]} {sys.version_info[1]} {VENV}"


def find_pip(base: str, clean: dict[str, str]) -> list[str]:
    """Whichever pip there is. It installs one thing, uv, into a folder: PEP 668 does not mind that."""

    def works(command: list[str]) -> bool:
        return subprocess.run(command, capture_output=True, env=clean, check=False).returncode == 0

    for python in (base, str(PYTHON)):
        if works([python, "-m", "pip", "--version"]):
            return [python, "-m", "pip"]
    if works([str(PYTHON), "-m", "ensurepip"]):
        return [str(PYTHON), "-m", "pip"]
    sys.exit("This Python has neither pip nor ensurepip. On Debian or Ubuntu: apt install python3-pip; then try again.")


def run(command: list[str], clean: dict[str, str]) -> None:
    if subprocess.run(command, env=clean, check=False).returncode == 0:
        return
    shown = " ".join(word for word in command if not word.startswith("--"))
    sys.exit(f"Setting up stopped at: {shown}\nThe reason is above. Nothing half-made is used: run the command again.")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
