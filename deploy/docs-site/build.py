#!/usr/bin/env python3
"""Build the documentation site from `docs/` and `README.md`: `python3 deploy/docs-site/build.py FOLDER`.

It installs the packages of `requirements.lock` in this folder into `.venv/.docs-site`, and no package of the product. The
pages are copied to `FOLDER/source` with every file of the repository that they link to, and rendered to `FOLDER/site`. A
link or anchor that does not exist stops it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
VENV = ROOT / ".venv"
PYTHON = VENV / ".docs-site" / "bin" / "python"
_LINK = re.compile(r"\[([^\]]*)\]\(([^)#\s]+)(#[^)]*)?\)")


def main(folder: Path) -> int:
    """Install the packages, copy the sources to the folder and build the site there. Returns the exit status."""
    install()
    copy_sources(folder)
    return subprocess.run([PYTHON, "-m", "zensical", "build", "--strict"], cwd=folder, check=False).returncode


def install() -> None:
    """Make the environment of the site from its lock, unless it is there."""
    stamp, lock = PYTHON.parents[1] / ".installed", HERE / "requirements.lock"
    if stamp.exists() and stamp.stat().st_mtime >= lock.stat().st_mtime:
        return
    uv = VENV / ".tools" / "bin" / "uv"
    subprocess.run([uv, "venv", "--quiet", "--clear", PYTHON.parents[1]], check=True)
    subprocess.run([uv, "pip", "sync", "--quiet", "--require-hashes", "--python", PYTHON, lock], check=True)
    stamp.write_text("")


def copy_sources(folder: Path) -> None:
    """Copy the configuration, every page, and every file that a page links to. A link to a folder becomes plain text."""
    source = folder / "source"
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(ROOT / "docs", source / "docs")
    shutil.copyfile(HERE / "zensical.toml", folder / "zensical.toml")
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        text = page.read_text()
        for whole, name, link, _ in ((found.group(), *found.groups()) for found in _LINK.finditer(text)):
            target = (page.parent / link).resolve()
            if target.is_dir():
                text = text.replace(whole, name)
            elif target.is_file() and not (copy := source / target.relative_to(ROOT)).exists():
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(target, copy)
        name_of_copy = Path("index.md") if page.parent == ROOT else page.relative_to(ROOT)
        (source / name_of_copy).write_text(text)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1]).resolve()))
