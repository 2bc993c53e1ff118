"""The page for operators and the product name the same things: metrics, checks of the doctor, measures."""

from __future__ import annotations

import contextlib
import re
import sqlite3
import subprocess
from pathlib import Path

import pytest
from django.conf import settings

from reviewqueue.operations.doctor import Finding
from reviewqueue.operations.doctor.metrics import collect_findings
from reviewqueue.operations.metrics import Metrics

ROOT = Path(settings.ROOT)
PAGE = (ROOT / "docs/operations.md").read_text()
OBSERVABILITY = (ROOT / "docs/observability.md").read_text()


def section(title: str, page: str = PAGE) -> str:
    return page.split(f"## {title}\n")[1].split("\n## ")[0]


def commands(*words: str) -> str:
    """The block of the page that begins with this text."""
    [block] = [block for block in re.findall(r"```sh\n(.*?)```", PAGE, re.S) if block.startswith(words)]
    return block


def test_a_backup_of_sqlite_is_taken_and_put_back_as_the_page_says(tmp_path: Path):
    (tmp_path / "var").mkdir()
    path = tmp_path / "var/reviewqueue.sqlite3"

    def run(block: str) -> None:
        subprocess.run(["sh", "-ec", block], cwd=tmp_path, check=True, timeout=60)

    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as lost:
        lost.execute("PRAGMA journal_mode=WAL")
        lost.execute("CREATE TABLE written (number INTEGER)")
        lost.execute("INSERT INTO written VALUES (1)")
        run(commands("# SQLite, while it runs"))
        lost.execute("INSERT INTO written VALUES (2)")
        left = {name: Path(f"{path}{name}").read_bytes() for name in ("-wal", "-shm")}
    for name, sent in left.items():  # as a machine that went down leaves them
        Path(f"{path}{name}").write_bytes(sent)

    run(commands("# SQLite, with nothing running"))
    with contextlib.closing(sqlite3.connect(path)) as restored:
        assert restored.execute("SELECT number FROM written").fetchall() == [(1,)]
        assert restored.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@pytest.mark.django_db
def test_every_metric_has_its_line_with_its_labels():
    told = dict(re.findall(r"^\| `(reviewqueue_\w+)` \|([^|]*)\|", section("Metrics", OBSERVABILITY), re.M))
    exposed = {
        family.name + ("_total" if family.type == "counter" else ""): list(getattr(family, "_labelnames", ()))
        for family in Metrics().collect()
    }
    findings = collect_findings([Finding(check="tasks", message="")])
    exposed |= {family.name: list(family.samples[0].labels) for family in findings.collect()}
    assert {name: re.findall(r"`(\w+)`", labels) for name, labels in told.items()} == exposed


def test_every_check_of_the_doctor_has_its_line():
    source = "".join(path.read_text() for path in (ROOT / "reviewqueue/operations/doctor").glob("*.py"))
    named = set(re.findall(r'check="(\w+)"', source)) | set(
        re.findall(r'\("(status|counters|timeline|records)",', source)
    )
    told = re.findall(r"^\| (`[^|]+`) \|", section("Diagnosis with doctor"), re.M)
    assert set(re.findall(r"`(\w+)`", " ".join(told))) == named
