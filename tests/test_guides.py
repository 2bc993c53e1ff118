"""The guides for people name the same keys, holds and labels as the product."""

from __future__ import annotations

import re

from django.conf import settings

from runs.states import HoldKind

DOCS = settings.ROOT / "docs"


def rows(page: str, heading: str) -> list[list[str]]:
    """Return the cells of the first table behind a heading."""
    behind = (DOCS / page).read_text().partition(f"| {heading} |")[2]
    lines = behind.partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_reviewers_guide_has_every_key_of_the_help():
    help_list = (
        (settings.ROOT / "templates/_shortcuts.html")
        .read_text()
        .partition('<ul class="keys">')[2]
        .partition("</ul>")[0]
    )
    help_list = re.sub(r'\{% translate "(.*?)" %\}', r"\1", help_list)
    offered = [
        (re.findall(r"<kbd>(.*?)</kbd>", line), re.sub(r"<.*?>", "", line.rpartition("</kbd>")[2]))
        for line in re.findall(r"<li>(.*?)</li>", help_list)
    ]
    told = [(re.findall(r"`(.*?)`", key), words) for key, words in rows("reviewers.md", "key")]
    assert sorted(told) == sorted(offered)


def test_the_owners_guide_has_every_hold_and_who_lifts_it():
    assert sorted(row[0].strip("`") for row in rows("owners.md", "hold")) == sorted(HoldKind.values)


def test_every_guide_is_linked_from_the_picture_and_the_readme():
    concepts, readme = (DOCS / "concepts.md").read_text(), (settings.ROOT / "README.md").read_text()
    for page in ("reviewers.md", "owners.md", "agents.md", "operations.md"):
        assert f"]({page})" in concepts
        assert f"](docs/{page})" in readme
    assert "](docs/concepts.md)" in readme
