"""`manage.py export_evidence`: write the evidence of a decision, a run or a period to the standard output."""

from __future__ import annotations

import os
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ledger.datetimes import InvalidDatetime, parse_datetime
from ledger.errors import NotFound
from reviewqueue.queries import evidence_export
from reviewqueue.queries.evidence_export import EvidenceFile
from runs.models import Decision


class Command(BaseCommand):
    help = "Print the evidence of a decision, a run or a period as JSON lines, for verify_evidence.py."

    def add_arguments(self, parser: CommandParser) -> None:
        which = parser.add_mutually_exclusive_group(required=True)
        which.add_argument("--decision", metavar="ID", help="such as dec_...")
        which.add_argument("--run", metavar="ID", help="such as run_...")
        which.add_argument(
            "--period", nargs=2, metavar=("SINCE", "UNTIL"), help="runs that were open between two times (RFC 3339)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        evidence = _evidence(options)
        try:
            for piece in evidence.pieces():
                self.stdout.write(piece.decode(), ending="")
            self.stdout.flush()
        except BrokenPipeError:  # the reader (`| head`) has closed the pipe; the buffer would be flushed at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.stdout.fileno())
            sys.exit(1)


def _evidence(options: dict[str, Any]) -> EvidenceFile:
    if options["decision"]:
        decision = Decision.objects.filter(public_id=options["decision"]).first()
        if decision is None:
            raise CommandError(f"There is no decision {options['decision']}.")
        return evidence_export.evidence_of_decision(None, decision)
    if options["run"]:
        try:
            return evidence_export.evidence_of_run(None, options["run"])
        except NotFound:
            raise CommandError(f"There is no run {options['run']}.") from None
    since, until = (_time(text) for text in options["period"])
    if not since < until:
        raise CommandError("The second time must be later than the first.")
    return evidence_export.evidence_of_period(since=since, until=until, made_by="manage.py")


def _time(text: str) -> Any:
    try:
        return parse_datetime(text)
    except InvalidDatetime as fault:
        raise CommandError(f"{text} {fault}.") from None
