"""`manage.py doctor`: say in words what is wrong; exit status 1 when something is."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from reviewqueue.operations.doctor import examine, history_integrity


class Command(BaseCommand):
    help = "Say what is wrong with rows, work and set-up, without changing anything; exit status 1 when something is."
    requires_system_checks: list[str] = []  # they are among what is looked at

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="one object instead of lines")
        parser.add_argument("--newest", type=int, metavar="N", help="read the timelines of the newest N runs only")

        parser.add_argument("--anchors", metavar="FILE", help="compare the timelines with what `anchors` wrote once")

    def handle(self, *args: Any, **options: Any) -> None:
        found = list(examine(newest=options["newest"], anchors=_kept(options["anchors"])))
        wrong = [finding for finding in found if finding.is_wrong]
        if options["json"]:
            told = [{"check": it.check, "wrong": it.is_wrong, "words": it.words} for it in found]
            self.stdout.write(json.dumps({"healthy": not wrong, "findings": told}, ensure_ascii=False))
        else:
            for finding in sorted(found, key=lambda it: not it.is_wrong):
                self.stdout.write(f"{'WRONG' if finding.is_wrong else 'note '}  {finding.check}: {finding.words}")
            self.stdout.write(f"{len(wrong)} wrong." if wrong else "Nothing is wrong.")
        if wrong:
            sys.exit(1)


def _kept(path: str | None) -> list[history_integrity.Anchor]:
    if path is None:
        return []
    try:
        return list(history_integrity.read_anchors(Path(path).read_text().splitlines()))
    except (OSError, ValueError) as problem:
        raise CommandError(f"The anchors in {path} cannot be read: {problem}.") from problem
