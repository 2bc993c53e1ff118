"""The wheel: built from this checkout, it runs without it, with templates and static files inside."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from django.conf import settings

from tests.own_processes import environment_for

PAGES = """
from django.contrib.staticfiles import finders
from django.test import Client
print(Client(headers={"host": "localhost"}).get("/account/login/").status_code, finders.find("app.css") is not None)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(build, cwd=settings.ROOT, check=True, capture_output=True, timeout=120)
    [built] = folder.glob("*.whl")
    return built


@pytest.fixture
def command(wheel: Path, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a command of the unpacked wheel in an empty folder."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    (tmp_path / "work").mkdir()
    environment = environment_for(f"sqlite:///{tmp_path / 'installed.sqlite3'}", PYTHONPATH=str(tmp_path / "site"))
    del environment["REVIEWQUEUE_ENVIRONMENT"]

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "reviewqueue", *arguments],
            cwd=tmp_path / "work",
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run


def test_it_has_the_command_and_no_tests(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        [points] = [archive.read(name).decode() for name in names if name.endswith("entry_points.txt")]
    assert "reviewqueue = reviewqueue.__main__:main" in points
    assert not [name for name in names if name.startswith("tests/")]
    on_disk = {path.relative_to(settings.ROOT).as_posix() for path in (settings.ROOT / "templates").rglob("*.html")}
    assert on_disk <= {name.removeprefix("reviewqueue/") for name in names}


@pytest.mark.slow
def test_it_is_set_up_in_one_step_and_serves_pages(command: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    made = command("init", "ada@example.org", "--queue", "purchasing", "--agent", "buyer", "--json")
    assert made.returncode == 0, made.stderr
    assert {"administrator": "ada@example.org", "queue": "purchasing", "agent": "buyer"}.items() <= json.loads(
        made.stdout
    ).items()
    served = command("shell", "--verbosity", "0", "-c", PAGES)
    assert served.stdout.split() == ["200", "True"], served.stderr


def test_what_needs_a_checkout_is_refused_and_messages_name_the_command(
    command: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    refused = command("test")
    assert (refused.returncode, "works only in a checkout" in refused.stderr) == (1, True)
    assert "Run reviewqueue up, or reviewqueue migrate." in command("add_queue", "q", "--owner", "o").stderr
    assert "python3 manage.py" not in command("demo", "--help").stdout
