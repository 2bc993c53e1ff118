"""`manage.py release`: it refuses a commit that is not ready, and says everything that is missing."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from reviewqueue import __version__
from reviewqueue.operations import release


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository whose commit is ready."""
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n## {__version__} - 2026-12-01\n")
    release.fixture_of(tmp_path).parent.mkdir(parents=True)
    release.fixture_of(tmp_path).write_text("BEGIN;\n")
    git(tmp_path, "init", "--quiet")
    commit(tmp_path)
    return tmp_path


def git(root: Path, *arguments: str) -> None:
    author = ["-c", "user.name=Ana", "-c", "user.email=ana@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *author, *arguments], cwd=root, check=True, capture_output=True)


def commit(root: Path) -> None:
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--allow-empty", "-m", "Release")


def test_a_commit_with_everything_is_ready_also_when_it_is_tagged(root: Path):
    assert release.find_faults(root) == []
    git(root, "tag", f"v{__version__}")
    assert release.find_faults(root) == []


def test_everything_that_is_missing_is_listed(root: Path):
    git(root, "tag", f"v{__version__}")
    (root / "CHANGELOG.md").write_text(f"## {__version__} (unreleased)\n")
    release.fixture_of(root).unlink()
    commit(root)
    (root / "forgotten").touch()
    changelog, fixture, tree, tag = release.find_faults(root)
    assert f"## {__version__} - YYYY-MM-DD" in changelog
    assert "python3 manage.py release --fixture" in fixture
    assert "not committed" in tree
    assert "Raise __version__" in tag


def test_what_is_not_ready_is_not_built(root: Path, capsys: pytest.CaptureFixture[str]):
    (root / "forgotten").touch()
    assert release.main([], root=root, uv=root / "no-uv") == 1
    assert "not committed" in capsys.readouterr().err
    assert not (root / "dist").exists()
