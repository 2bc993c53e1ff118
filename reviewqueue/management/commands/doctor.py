"""`manage.py doctor`: report what is wrong; exit status 1 if something is."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from prometheus_client import write_to_textfile

from reviewqueue.operations.doctor import Finding, history_integrity, run_checks
from reviewqueue.operations.doctor.metrics import collect_findings


class Command(BaseCommand):
    help = (
        "Check rows, workers and configuration without changing anything. The exit status is 1 if something is wrong."
    )
    requires_system_checks: list[str] = []  # the doctor runs and reports them itself

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="print one JSON object instead of lines")
        parser.add_argument(
            "--metrics", metavar="FILE", help="also write the result as metrics, for node_exporter's textfile collector"
        )
        parser.add_argument("--newest", type=int, metavar="N", help="read the timelines of the newest N runs only")
        parser.add_argument(
            "--anchors", metavar="FILE", help="compare the timelines with an earlier output of `anchors`"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        found = list(run_checks(newest=options["newest"], anchors=_read_anchors(options["anchors"])))
        wrong = [finding for finding in found if finding.is_wrong]
        if options["metrics"]:
            _write_metrics(options["metrics"], found)
        if options["json"]:
            members = [{"check": it.check, "wrong": it.is_wrong, "message": it.message} for it in found]
            self.stdout.write(json.dumps({"healthy": not wrong, "findings": members}, ensure_ascii=False))
        else:
            for finding in sorted(found, key=lambda it: not it.is_wrong):
                self.stdout.write(f"{'WRONG' if finding.is_wrong else 'note '}  {finding.check}: {finding.message}")
            self.stdout.write(f"{len(wrong)} wrong." if wrong else "Nothing is wrong.")
        if wrong:
            sys.exit(1)


def _write_metrics(path: str, found: list[Finding]) -> None:
    try:
        write_to_textfile(path, collect_findings(found))
    except OSError as problem:
        raise CommandError(f"Cannot write the metrics to {path}: {problem}.") from problem


def _read_anchors(path: str | None) -> list[history_integrity.Anchor]:
    if path is None:
        return []
    try:
        return list(history_integrity.read_anchors(Path(path).read_text().splitlines()))
    except (OSError, ValueError) as problem:
        raise CommandError(f"Cannot read the anchors in {path}: {problem}.") from problem
