"""`manage.py release`: check that this commit can be released, and write wheel, source archive and SBOM to `dist/`.

The version is `__version__` in `reviewqueue/__init__.py`. Standard library only, because `manage.py` runs it before Django.
The tools are in an environment of their own, `.venv/.release`, made from `requirements-release.lock`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

from reviewqueue import __version__


class NotReady(Exception):
    """This commit cannot be released; the text says what to do."""


def read_arguments(arguments: list[str]) -> argparse.Namespace:
    """Exit after printing the help (status 0), or for an unexpected argument (status 2)."""
    parser = argparse.ArgumentParser(prog="manage.py release", description=__doc__, allow_abbrev=False)
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--fixture", action="store_true", help="only write the upgrade fixture of this version")
    chosen.add_argument(
        "--audit", action="store_true", help="only look up known vulnerabilities of the locked versions"
    )
    parser.add_argument("--unchecked", action="store_true", help="build although the checks fail; for a trial")
    return parser.parse_args(arguments)


def main(arguments: list[str], *, root: Path, uv: Path) -> int:
    """Run the command; return its exit status."""
    chosen = read_arguments(arguments)
    try:
        if chosen.fixture:
            write_fixture(root)
        elif chosen.audit:
            return audit(root, uv)
        else:
            faults = [] if chosen.unchecked else find_faults(root)
            if faults:
                raise NotReady("\n".join(faults))
            build(root, uv)
            _print(
                f"Next: git tag --sign v{__version__} && git push origin v{__version__}, and publish what is in dist/."
            )
    except NotReady as problem:
        print(problem, file=sys.stderr)  # noqa: T201  output of the command
        return 1
    return 0


def fixture_of(root: Path) -> Path:
    return root / "tests" / "upgrades" / f"release_{__version__.replace('.', '_')}.sql"


def find_faults(root: Path) -> list[str]:
    """Return what is missing for a release, one sentence each."""
    faults = []
    if not re.search(rf"^## {re.escape(__version__)} - \d{{4}}-\d\d-\d\d$", (root / "CHANGELOG.md").read_text(), re.M):
        faults.append(f"CHANGELOG.md must have the heading '## {__version__} - YYYY-MM-DD'.")
    if not fixture_of(root).is_file():
        faults.append(
            f"{fixture_of(root).relative_to(root)} is missing. Run: python3 manage.py release --fixture, and commit it."
        )
    if _git(root, "status", "--porcelain"):
        faults.append("The tree has changes that are not committed.")
    tagged = _git(root, "rev-parse", "--quiet", "--verify", f"v{__version__}^{{commit}}")
    if tagged and tagged != _git(root, "rev-parse", "HEAD"):
        faults.append(f"The tag v{__version__} is on another commit. Raise __version__ in reviewqueue/__init__.py.")
    return faults


def build(root: Path, uv: Path) -> None:
    """Write the wheel, the source archive and the SBOM (CycloneDX, JSON) of the locked dependencies to `dist/`."""
    bin_folder = _environment(root, uv)
    dist = root / "dist"
    _run([str(bin_folder / "python"), "-m", "hatchling", "build", "--directory", str(dist)], root)
    bom = dist / f"reviewqueue-{__version__}.cdx.json"
    source = ["requirements", "requirements.lock", "--pyproject", "pyproject.toml"]
    _run([str(bin_folder / "cyclonedx-py"), *source, "--output-reproducible", "--validate", "-o", str(bom)], root)
    written = json.loads(bom.read_text())
    written["metadata"]["component"]["version"] = __version__  # the tool does not read a dynamic version
    bom.write_text(json.dumps(written, indent=2) + "\n")
    _print(f"{bom.relative_to(root)}: {len(written['components'])} dependencies")


def audit(root: Path, uv: Path) -> int:
    """Look up the locked versions in the advisories of PyPI. Returns 0 without a known vulnerability."""
    command = [str(_environment(root, uv) / "pip-audit"), "--disable-pip", "--require-hashes", "--progress-spinner=off"]
    return subprocess.run([*command, "--requirement", "requirements.lock"], cwd=root, check=False).returncode


def write_fixture(root: Path) -> None:
    """Write a database of this version with work under way, as SQL, for the tests of later versions."""
    environment = os.environ | {"PYTHONPATH": str(root), "REVIEWQUEUE_ENVIRONMENT": "own"}
    command = [sys.executable, "-m", "tests.upgrades.write_fixture", str(fixture_of(root))]
    if subprocess.run(command, cwd=root, env=environment, check=False).returncode:
        raise NotReady("The upgrade fixture was not written; the reason is above.")
    _print(f"{fixture_of(root).relative_to(root)}: commit it, and do not change it later.")


def _environment(root: Path, uv: Path) -> Path:
    """Make `.venv/.release` with the locked tools, and return its folder of programs."""
    folder = root / ".venv" / ".release"
    if not (folder / "bin" / "python").exists():
        _run([str(uv), "venv", "--quiet", "--python", sys.executable, str(folder)], root)
    lock = ["--quiet", "--require-hashes", "--python", str(folder / "bin" / "python"), "requirements-release.lock"]
    _run([str(uv), "pip", "sync", *lock], root)
    return folder / "bin"


def _run(command: list[str], root: Path) -> None:
    if subprocess.run(command, cwd=root, check=False).returncode:
        raise NotReady(f"{Path(command[0]).name} failed; the reason is above.")


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _print(sentence: str) -> None:
    print(sentence)  # noqa: T201  output of the command
