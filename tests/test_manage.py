"""`manage.py`: when it recreates the environment, what it refuses, and that a bare copy of the tree starts."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from django.conf import settings

ROOT = settings.ROOT


@pytest.fixture
def manage(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """`manage.py` as a module in an empty folder with lock files of its own."""
    spec = importlib.util.spec_from_file_location("manage", ROOT / "manage.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    venv = tmp_path / ".venv"
    venv.mkdir()
    locks = {kind: tmp_path / f"{kind}.lock" for kind in ("run", "test")}
    for name, path in {"uv": tmp_path / "uv.lock", **locks}.items():
        path.write_text(f"{name}==1\n")
    there = {"ROOT": tmp_path, "VENV": venv, "PYTHON": venv / "bin" / "python", "STAMP": venv / ".installed"}
    for name, value in (there | {"UV_LOCK": tmp_path / "uv.lock", "LOCKS": locks}).items():
        monkeypatch.setattr(module, name, value)
    monkeypatch.delenv("REVIEWQUEUE_ENVIRONMENT", raising=False)
    return module


def test_nothing_is_current_before_the_stamp_is_written(manage: ModuleType):
    assert not manage.is_current("run")
    assert not manage.is_current("test")


def test_the_environment_for_tests_serves_for_running_too_but_not_the_other_way(manage: ModuleType):
    manage.STAMP.write_text(manage.stamp_of("test"))
    assert manage.is_current("run")
    assert manage.is_current("test")
    manage.STAMP.write_text(manage.stamp_of("run"))
    assert manage.is_current("run")
    assert not manage.is_current("test")


@pytest.mark.parametrize("changed", ["uv.lock", "run.lock"])
def test_a_changed_lock_recreates_the_environment(manage: ModuleType, changed: str):
    manage.STAMP.write_text(manage.stamp_of("run"))
    (manage.ROOT / changed).write_text("other==2\n")
    assert not manage.is_current("run")


def test_a_moved_tree_or_another_python_recreates_the_environment(manage: ModuleType, monkeypatch: pytest.MonkeyPatch):
    manage.STAMP.write_text(manage.stamp_of("run"))
    with monkeypatch.context() as moved:
        moved.setattr(manage, "ROOT", Path("/elsewhere"))
        assert not manage.is_current("run")
    monkeypatch.setattr(sys, "version_info", (3, 99, 0))
    assert not manage.is_current("run")


def test_a_set_up_that_stops_half_way_leaves_no_stamp(manage: ModuleType, monkeypatch: pytest.MonkeyPatch):
    manage.STAMP.write_text("run an older one")

    def stops(command: list[str], clean: dict[str, str]) -> None:
        raise SystemExit("stopped")

    monkeypatch.setattr(manage, "run", stops)
    with pytest.raises(SystemExit):
        manage.enter_environment("run", [])
    assert not manage.STAMP.exists()


def test_a_python_from_elsewhere_is_not_used(manage: ModuleType):
    manage.PYTHON.parent.mkdir()
    manage.PYTHON.symlink_to(sys.executable)  # works, but its prefix is not this folder's
    assert not manage.is_usable(manage.PYTHON)


def test_an_old_python_is_refused(
    manage: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(sys, "version_info", (3, 10, 13))
    assert manage.main(["check"]) == 1
    assert "needs Python 3.11 or newer" in capsys.readouterr().err


def test_habits_of_the_user_do_not_reach_the_children(manage: ModuleType, monkeypatch: pytest.MonkeyPatch):
    for name in ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONHOME"):
        monkeypatch.setenv(name, "/misleading")
    monkeypatch.setenv("PIP_USER", "1")
    clean = manage.child_environment()
    assert not {"PYTHONPATH", "VIRTUAL_ENV", "PYTHONHOME"} & set(clean)
    assert (clean["PIP_USER"], clean["PIP_REQUIRE_VIRTUALENV"]) == ("0", "0")


def pins(lock: str) -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9-]+)(?:\[[^]]*\])?==(\S+)", (ROOT / lock).read_text(), re.MULTILINE))


@pytest.mark.parametrize(
    "lock", ["bootstrap.lock", *(f"requirements{kind}.lock" for kind in ("", "-test", "-adapters", "-release"))]
)
def test_a_lock_pins_by_hash_and_names_no_registry(lock: str):
    text = (ROOT / lock).read_text()
    assert pins(lock)
    assert "://" not in text
    entries = re.split(r"^(?=\S)", text, flags=re.MULTILINE)
    assert [entry for entry in entries if entry.strip() and "--hash=sha256:" not in entry] == []


def test_tests_run_against_the_versions_that_the_product_runs_on():
    run, test = pins("requirements.lock"), pins("requirements-test.lock")
    assert {name: test.get(name) for name in run} == run


def test_every_dependency_is_locked():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    def names(requirements: list[str]) -> set[str]:
        return {re.split(r"[\[<>=~!; ]", wanted)[0].lower() for wanted in requirements}

    assert names(project["dependencies"]) <= set(pins("requirements.lock"))
    assert names(project["optional-dependencies"]["test"]) <= set(pins("requirements-test.lock"))
    client = tomllib.loads((ROOT / "clients" / "python" / "pyproject.toml").read_text())
    extras = [wanted for extra in client["project"]["optional-dependencies"].values() for wanted in extra]
    assert names(extras + client["dependency-groups"]["adapters"]) <= set(pins("requirements-adapters.lock"))


@pytest.mark.long
def test_a_bare_copy_of_the_tree_starts_and_a_moved_one_starts_again(tmp_path: Path):
    copy = tmp_path / "a folder with blanks"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, copy / name)
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("REVIEWQUEUE_", "DJANGO_", "VIRTUAL"))
    }
    python = getattr(sys, "_base_executable", sys.executable)

    def check(folder: Path) -> subprocess.CompletedProcess[str]:
        command = [python, str(folder / "manage.py"), "check"]
        return subprocess.run(command, env=kept | {"SECRET_KEY": "k" * 60}, capture_output=True, text=True, check=False)

    first, second = check(copy), check(copy)
    assert first.returncode == 0, first.stderr
    assert "Setting up .venv" in first.stderr
    assert second.returncode == 0, second.stderr
    assert "Setting up" not in second.stderr
    moved = check(copy.rename(tmp_path / "moved"))
    assert moved.returncode == 0, moved.stderr
    assert "Setting up .venv" in moved.stderr


def test_help_needs_no_secret_key():
    environment = {name: value for name, value in os.environ.items() if name != "SECRET_KEY"}
    environment |= {"REVIEWQUEUE_MODE": "production", "REVIEWQUEUE_ENVIRONMENT": "own"}
    command = [sys.executable, str(ROOT / "manage.py"), "add_queue", "-h"]
    told = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr
    assert "--owner" in told.stdout


def by_hand(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `manage.py` in this environment, so that nothing is installed."""
    environment = os.environ | {"REVIEWQUEUE_ENVIRONMENT": "own"}
    command = [sys.executable, str(ROOT / "manage.py"), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


LOCKS = ("bootstrap.lock", *(f"requirements{kind}.lock" for kind in ("", "-test", "-adapters", "-release")))


@pytest.mark.parametrize("command", ["lock", "release", "test"])
@pytest.mark.parametrize("asked", [["--help"], ["-h"], ["help"]])
def test_help_of_a_command_that_django_does_not_know_is_printed_and_nothing_is_done(command: str, asked: list[str]):
    before = [(ROOT / lock).stat().st_mtime_ns for lock in LOCKS]
    told = by_hand("help", command) if asked == ["help"] else by_hand(command, *asked)
    assert told.returncode == 0, told.stderr
    assert told.stdout.startswith(f"usage: manage.py {command}")
    assert [(ROOT / lock).stat().st_mtime_ns for lock in LOCKS] == before


@pytest.mark.parametrize("arguments", [["lock", "--upgrade"], ["lock", "now"], ["test", "--no-such-option"]])
def test_an_unknown_argument_is_a_usage_error_and_nothing_is_done(arguments: list[str]):
    before = [(ROOT / lock).stat().st_mtime_ns for lock in LOCKS]
    told = by_hand(*arguments)
    assert told.returncode == 2, told.stdout + told.stderr
    assert arguments[1] in told.stdout + told.stderr
    assert [(ROOT / lock).stat().st_mtime_ns for lock in LOCKS] == before


def test_an_abbreviated_option_of_the_test_command_writes_no_page():
    told = by_hand("test", "--promis")
    assert told.returncode == 2
    assert "--promis" in told.stdout + told.stderr
