"""Checks that stored records are as their history recorded them: rows of runs by their events, configuration by its chain.

They find a decision, permit, request, checkpoint, effect, report, policy or effect rule that was changed, deleted or
inserted, and tables without their triggers. docs/tampering.md lists what they cannot find.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from ledger.append_only_triggers import missing_guards
from ledger.digests import digest
from ledger.exact_json import dumps
from ledger.models import Effect, EffectReport
from ledger.row_digests import CoveredRow
from reviewqueue.operations.doctor.findings import Finding
from runs.configuration_history import find_broken_configuration_chain, find_changed_configuration
from runs.models import (
    Attachment,
    Checkpoint,
    Decision,
    Interrupt,
    Permit,
    PlantedRequest,
    Run,
    Schema,
    StandingRuleUse,
)
from runs.verification import is_content_as_recorded, is_decision_as_recorded, is_permit_as_decided, list_changed_parts

#: Tables that triggers guard, by the migrations of ledger and runs.
GUARDED = (
    "ledger_effect",
    "ledger_effectreport",
    "ledger_order",
    "runs_attachment",
    "runs_checkpoint",
    "runs_configurationrecord",
    "runs_decision",
    "runs_effectrule",
    "runs_event",
    "runs_interrupt",
    "runs_permit",
    "runs_plantedrequest",
    "runs_policy",
    "runs_revision",
    "runs_schema",
    "runs_standingrule",
    "runs_standingruleuse",
)
_REPORT = re.compile("report:(eff_[0-9a-z]+):")


def triggers() -> Iterator[Finding]:
    """Find append-only tables whose triggers are missing or off."""
    for name in missing_guards(GUARDED):
        yield Finding(check="triggers", message=f"The trigger {name} is missing or disabled. See docs/tampering.md.")


def configuration() -> Iterator[Finding]:
    """Find policies, effect rules and answer schemas that differ from their records."""
    broken = find_broken_configuration_chain()
    if broken:
        yield Finding(check="configuration", message=f"The chain of configuration records is broken: {broken}.")
    for change in find_changed_configuration():
        yield Finding(check="configuration", message=f"Not as recorded: {change}.")
    for schema in Schema.objects.order_by("pk").iterator():
        if digest(dumps(schema.body)) != schema.digest:
            yield Finding(check="configuration", message=f"The answer schema {schema.pk} was changed.")


def find_changed_records(run: Run) -> str:
    """Return which records of a run differ from its events, such as "permit per_1 was changed"; empty if none does."""
    recorded: dict[str, str] = {}
    last_without = None
    for row_digests, at in run.events.order_by("seq").values_list("row_digests", "at").iterator():
        if row_digests is None:
            last_without = at
        else:
            recorded |= row_digests
    if not run.planted and PlantedRequest.objects.filter(interrupt__run=run).exists():
        return "its mark as planted was removed"
    rows = list(_rows_of(run))
    unlike = {name.partition(".")[0]: name for name in list_changed_parts(rows, recorded, since=lambda: last_without)}
    changes = [f"{_row_label(name)} was {_kind_of_change(name, recorded)}" for name in unlike]
    present = {row.covered_as for row in rows}
    expected = dict.fromkeys(name.partition(".")[0] for name in recorded)
    changes += [f"{_row_label(name)} was {_kind_of_loss(name)}" for name in expected if name not in present]
    changes += [f"{_row_label(name)} was changed" for name in _rows_unlike_their_digest(rows) if name not in unlike]
    return "; ".join(changes)


def _kind_of_change(name: str, recorded: dict[str, str]) -> str:
    return "changed" if any(part.partition(".")[0] == name for part in recorded) else "inserted"


def _kind_of_loss(name: str) -> str:
    return "changed or deleted" if name.startswith("report:") else "deleted"


def _row_label(name: str) -> str:
    """Return ``permit per_1`` for ``permit:per_1``; a report has no public id, so its effect names it."""
    report = _REPORT.match(name)
    return f"a report of effect {report[1]}" if report else name.replace(":", " ", 1)


def _rows_of(run: Run) -> Iterator[Any]:
    yield from Attachment.objects.filter(run=run).exclude(added_at=None).order_by("pk")
    effects = {effect.pk: effect for effect in Effect.objects.filter(scope=run.public_id).order_by("pk")}
    yield from Checkpoint.objects.filter(run=run).order_by("pk")
    yield from Interrupt.objects.filter(run=run).select_related("schema").prefetch_related("facts").order_by("pk")
    yield from Decision.objects.filter(interrupt__run=run).order_by("pk")
    yield from StandingRuleUse.objects.filter(decision__interrupt__run=run).select_related("decision").order_by("pk")
    # An open one is in no event yet, so that no event betrays it.
    yield from PlantedRequest.objects.filter(interrupt__run=run).exclude(outcome="").order_by("pk")
    yield from Permit.objects.filter(run=run).select_related("decision__interrupt").order_by("pk")
    yield from effects.values()
    for report in EffectReport.objects.filter(effect__in=effects).order_by("pk"):
        report.effect = effects[report.effect_id]
        yield report


def _rows_unlike_their_digest(rows: Iterable[CoveredRow]) -> Iterator[str]:
    """Yield the rows whose content does not match the digest stored with it."""
    for row in rows:
        if isinstance(row, Checkpoint):
            is_intact = row.erased_at is not None or digest(row.state) == row.digest
        elif isinstance(row, Interrupt):
            is_intact = is_content_as_recorded(row)
        elif isinstance(row, Decision):
            is_intact = is_decision_as_recorded(row)
        elif isinstance(row, Permit):
            is_intact = row.void_at is not None or is_permit_as_decided(row)
            is_intact = is_intact and digest(row.call) == row.digest
        elif isinstance(row, Effect):
            is_intact = digest(row.call) == row.call_digest
        else:
            continue
        if not is_intact:
            yield row.covered_as
