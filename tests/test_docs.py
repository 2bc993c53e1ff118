"""The pages of `docs/`, executed: every block runs, in order, against a server of its own, and does what the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings

from reviewqueue.api.problems import PROBLEMS
from tests.docs_session import EXECUTED, blocks_of
from tests.running_server import GUIDE_SETUP_COMMANDS, running_server

DOCS = settings.ROOT / "docs"
MARK = "<!-- Executed by tests/test_docs.py"
PAGES = sorted(page for page in DOCS.rglob("*.md") if MARK in page.read_text())


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_of_a_page_does_what_the_page_says(page: Path, tmp_path: Path):
    (tmp_path / "manage.py").symlink_to(settings.ROOT / "manage.py")
    with running_server(tmp_path, GUIDE_SETUP_COMMANDS) as desk:
        paths = {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(settings.ROOT),
        }
        done = subprocess.run(
            [sys.executable, "-m", "tests.docs_session", str(page)],
            cwd=tmp_path,
            env=desk.environment | paths,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr + (tmp_path / "web.log").read_text()[-2000:]


def test_every_page_with_commands_or_code_is_executed():
    tests = "".join(path.read_text() for path in (settings.ROOT / "tests").rglob("test_*.py"))
    for page in DOCS.rglob("*.md"):
        if page not in PAGES and page.name not in tests:  # a page with a test of its own
            assert not [block for block in blocks_of(page) if block.language in EXECUTED], page


@pytest.mark.parametrize("page", [settings.ROOT / "README.md", *sorted(DOCS.rglob("*.md"))], ids=lambda page: page.stem)
def test_every_link_of_a_page_leads_somewhere(page: Path):
    for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
        assert link.startswith("http") or (page.parent / link).exists(), link


def test_the_agent_guide_says_what_to_do_with_every_refusal():
    _, _, table = (DOCS / "agents.md").read_text().partition("| what to do | codes |")
    listed = re.findall(r"`(\w+)`", table.partition("\n\n")[0])
    assert len(listed) == len(set(listed))
    assert set(PROBLEMS) == set(listed)


def test_the_comparison_names_tests_that_exist_and_a_source_in_each_cell():
    page = (DOCS / "comparison.md").read_text()
    tests = "".join(path.read_text() for path in (settings.ROOT / "tests").rglob("test_*.py"))
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if re.match(r"\| \d+ \| ", line)]
    assert sorted(int(row[0]) for row in rows) == list(range(1, 39))
    defined = set(re.findall(r"^\[([A-Z]\d+)\]: http", page, re.MULTILINE))
    assert set(re.findall(r"\[([A-Z]\d+)\](?!:)", page)) == defined
    for number, _, ours, *others in rows:
        named = re.findall(r"`(test_\w+)`", ours)
        assert named or ours.startswith("no:") or "LICENSE" in ours, number
        assert not [name for name in named if f"def {name}(" not in tests], number
        assert len(others) == 5, number
        for cell in others:
            assert re.match(r"(yes|partly|no|not documented)\b", cell), (number, cell)
            assert cell == "not documented" or re.search(r"\[[A-Z]\d+\]", cell), (number, cell)
