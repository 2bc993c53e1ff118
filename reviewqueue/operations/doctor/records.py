"""Is each stored record the one that history recorded? Rows of runs against their events, configuration against its chain.

What is found: a decision, permit, request, checkpoint, effect, report, policy or effect rule that was changed, deleted or
inserted, and a table whose triggers are gone. What is not found is in docs/tampering.md. Nothing is repaired here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from ledger.digests import digest
from ledger.exact_json import dumps
from ledger.guards import missing_guards
from ledger.models import Effect, EffectReport
from ledger.row_digests import CoveredRow
from reviewqueue.operations.doctor.findings import Finding
from runs.configuration import changed_configuration, find_configuration_break
from runs.models import Checkpoint, Decision, Interrupt, Permit, Run, Schema
from runs.verification import changed_parts, is_what_was_decided, is_what_was_said, is_what_was_shown

#: Tables that triggers guard, by the migrations of ledger and runs.
GUARDED = (
    "ledger_effect",
    "ledger_effectreport",
    "ledger_order",
    "runs_checkpoint",
    "runs_configurationrecord",
    "runs_decision",
    "runs_effectrule",
    "runs_event",
    "runs_interrupt",
    "runs_permit",
    "runs_policy",
    "runs_revision",
    "runs_schema",
)
_REPORT = re.compile("report:(eff_[0-9a-z]+):")


def triggers() -> Iterator[Finding]:
    """Find append-only tables whose triggers are missing or off."""
    for name in missing_guards(GUARDED):
        yield Finding(check="triggers", words=f"the trigger {name} is missing or switched off")


def configuration() -> Iterator[Finding]:
    """Find policies and effect rules that are not as they were created."""
    broken = find_configuration_break()
    if broken:
        yield Finding(check="configuration", words=f"the chain of configuration records is broken: {broken}")
    for words in changed_configuration():
        yield Finding(check="configuration", words=words)
    for schema in Schema.objects.order_by("pk").iterator():
        if digest(dumps(schema.body)) != schema.digest:
            yield Finding(check="configuration", words=f"the answer schema {schema.pk} was changed")


def find_changed_records(run: Run) -> str:
    """Return a sentence naming the records of a run that differ from its events; empty when none does."""
    recorded: dict[str, str] = {}
    last_without = None
    for row_digests, at in run.events.order_by("seq").values_list("row_digests", "at").iterator():
        if row_digests is None:
            last_without = at
        else:
            recorded |= row_digests
    rows = list(_rows_of(run))
    unlike = {name.partition(".")[0]: name for name in changed_parts(rows, recorded, since=lambda: last_without)}
    words = [f"{_in_words(name)} was {_how(name, recorded)}" for name in unlike]
    there = {row.covered_as for row in rows}
    gone = dict.fromkeys(name.partition(".")[0] for name in recorded)
    words += [f"{_in_words(name)} was {_gone(name)}" for name in gone if name not in there]
    words += [f"{_in_words(name)} was changed" for name in _unlike_its_digest(rows) if name not in unlike]
    return "; ".join(words)


def _how(name: str, recorded: dict[str, str]) -> str:
    return "changed" if any(kept.partition(".")[0] == name for kept in recorded) else "inserted"


def _gone(name: str) -> str:
    return "changed or deleted" if name.startswith("report:") else "deleted"


def _in_words(name: str) -> str:
    """Return a row as a sentence names it: ``permit per_...``; a report has no id of its own."""
    report = _REPORT.match(name)
    return f"a report of effect {report[1]}" if report else name.replace(":", " ", 1)


def _rows_of(run: Run) -> Iterator[Any]:
    effects = {effect.pk: effect for effect in Effect.objects.filter(scope=run.public_id).order_by("pk")}
    yield from Checkpoint.objects.filter(run=run).order_by("pk")
    yield from Interrupt.objects.filter(run=run).select_related("schema").prefetch_related("facts").order_by("pk")
    yield from Decision.objects.filter(interrupt__run=run).order_by("pk")
    yield from Permit.objects.filter(run=run).select_related("decision__interrupt").order_by("pk")
    yield from effects.values()
    for report in EffectReport.objects.filter(effect__in=effects).order_by("pk"):
        report.effect = effects[report.effect_id]
        yield report


def _unlike_its_digest(rows: Iterable[CoveredRow]) -> Iterator[str]:
    """Return the rows whose content has not the digest that is stored beside it."""
    for row in rows:
        if isinstance(row, Checkpoint):
            is_whole = row.erased_at is not None or digest(row.state) == row.digest
        elif isinstance(row, Interrupt):
            is_whole = is_what_was_shown(row)
        elif isinstance(row, Decision):
            is_whole = is_what_was_said(row)
        elif isinstance(row, Permit):
            is_whole = row.void_at is not None or is_what_was_decided(row)
            is_whole = is_whole and digest(row.call) == row.digest
        elif isinstance(row, Effect):
            is_whole = digest(row.call) == row.call_digest
        else:
            continue
        if not is_whole:
            yield row.covered_as
