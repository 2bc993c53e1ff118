"""The page for operators and the product name the same things: metrics, checks of the doctor, measures."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.conf import settings

from reviewqueue.metrics import Measures

ROOT = Path(settings.ROOT)
PAGE = (ROOT / "docs/operations.md").read_text()


def section(title: str) -> str:
    return PAGE.split(f"## {title}\n")[1].split("\n## ")[0]


@pytest.mark.django_db
def test_every_metric_has_its_line_with_its_labels():
    told = dict(re.findall(r"^\| `(reviewqueue_\w+)` \|([^|]*)\|", section("What to watch"), re.M))
    exposed = {
        family.name + ("_total" if family.type == "counter" else ""): list(getattr(family, "_labelnames", ()))
        for family in Measures().collect()
    }
    assert {name: re.findall(r"`(\w+)`", labels) for name, labels in told.items()} == exposed


def test_every_alert_names_a_metric_of_the_table():
    alerts = re.search(r"```promql\n(.*?)```", PAGE, re.S)
    assert alerts
    table = set(re.findall(r"^\| `(\w+)`", section("What to watch"), re.M))
    assert set(re.findall(r"reviewqueue_\w+", alerts.group(1))) <= table


def test_every_check_of_the_doctor_has_its_line():
    source = "".join(path.read_text() for path in (ROOT / "reviewqueue/doctor").glob("*.py"))
    named = set(re.findall(r'check="(\w+)"', source)) | set(re.findall(r'\("(status|counters|timeline)",', source))
    told = re.findall(r"^\| (`[^|]+`) \|", section("What is wrong?"), re.M)
    assert set(re.findall(r"`(\w+)`", " ".join(told))) == named
