"""The documentation site: every page is in its navigation, and it is built without a warning or a broken link."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

HERE = settings.ROOT / "deploy" / "docs-site"
GROUPS = ["Tutorials", "How-to guides", "Reference", "Explanation"]


def pages_of(navigation: Any) -> list[str]:
    if isinstance(navigation, str):
        return [navigation]
    inner = navigation.values() if isinstance(navigation, dict) else navigation
    return [page for each in inner for page in pages_of(each)]


def test_every_page_is_in_one_of_four_groups():
    navigation = tomllib.loads((HERE / "zensical.toml").read_text())["project"]["nav"]
    assert [name for group in navigation for name in group] == GROUPS
    pages = sorted(str(page.relative_to(settings.ROOT)) for page in (settings.ROOT / "docs").rglob("*.md"))
    assert sorted(pages_of(navigation)) == sorted([*pages, "index.md"])


@pytest.mark.slow
def test_the_site_is_built_strictly_and_every_link_in_it_leads_somewhere(tmp_path: Path):
    build = runpy.run_path(str(HERE / "build.py"))
    try:
        build["install"]()
    except (OSError, subprocess.CalledProcessError) as error:
        problem = f"NOT RUN: the packages of the documentation site cannot be installed: {error}"
        if os.environ.get("CI"):
            pytest.fail(problem)
        pytest.skip(problem)
    assert build["main"](tmp_path) == 0
    site = tmp_path / "site"
    broken = [
        (page.name, link)
        for page in site.rglob("*.html")
        for link in re.findall(r'(?:href|src)="([^"#]+)', page.read_text())
        if not re.match(r"\w+:|/", link) and not (page.parent / link).resolve().exists()
    ]
    assert broken == []
    assert "Review Queue" in (site / "index.html").read_text()
    outside = {
        link
        for page in site.rglob("*.html")
        for link in re.findall(r'<(?:link|script)[^>]*"(https?:[^"]+)', page.read_text())
    }
    assert outside == set(), "a page loads something from another host"
