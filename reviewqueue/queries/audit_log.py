"""The audit log as its readers see it: operators read every change, owners those of their agents and queues."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.auth.models import AbstractUser
from django.db.models import Q, QuerySet

from ledger.datetimes import format_datetime
from ledger.exact_json import dumps
from reviewqueue import permissions
from reviewqueue.queries.insights.csv_export import inert_cell
from runs.configuration_history import REMOVED
from runs.models import ConfigurationRecord, PlantedRequest
from runs.planted_requests import KIND as KIND_OF_PLANTED

PAGE_SIZE = 50
MAX_EXPORTED = 10_000
READ_AT_ONCE = 50
COLUMNS = ("id", "at", "actor", "kind", "name", "action", "agent", "queue", "before", "after")

_ID = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True)
class AuditFilters:
    """Which records are listed; empty: all. ``actor`` is a part of its text, ``since`` and ``until`` are times."""

    kind: str = ""
    agent: str = ""
    queue: str = ""
    actor: str = ""
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class ChangedMember:
    """A member of a state that differs; ``ABSENT`` values are ``None``."""

    name: str
    before: Any
    after: Any
    is_new: bool = False
    is_gone: bool = False


def can_read(person: AbstractUser) -> bool:
    """Tell whether the person is an operator, or owns an agent or a queue."""
    return (
        permissions.is_operator(person)
        or permissions.owned_agents(person).exists()
        or permissions.owned_queues(person).exists()
    )


def visible_records(person: AbstractUser) -> QuerySet[ConfigurationRecord]:
    """Return the records that the person can read. Those of other people's open planted requests are hidden."""
    hidden = PlantedRequest.objects.filter(outcome="").exclude(planted_by=person.pk)
    records = ConfigurationRecord.objects.select_related("agent", "queue").exclude(
        kind=KIND_OF_PLANTED, subject__in=hidden.values("pk")
    )
    if permissions.is_operator(person):
        return records
    agents = list(permissions.owned_agents(person).values_list("pk", flat=True))
    queues = list(permissions.owned_queues(person).values_list("pk", flat=True))
    # A record of an agent can name a queue; only the agent's owners read it.
    return records.filter(Q(agent__in=agents) | Q(agent=None, queue__in=queues))


def filter_records(records: QuerySet[ConfigurationRecord], filters: AuditFilters) -> QuerySet[ConfigurationRecord]:
    """Return the records that match, newest first."""
    if filters.kind:
        records = records.filter(kind=filters.kind)
    if filters.agent:
        records = records.filter(agent__slug=filters.agent)
    if filters.queue:
        records = records.filter(queue__slug=filters.queue)
    if filters.actor:
        records = records.filter(actor__icontains=filters.actor)
    if filters.since is not None:
        records = records.filter(at__gte=filters.since)
    if filters.until is not None:
        records = records.filter(at__lt=filters.until)
    return records.order_by("-seq")


def older_than(records: QuerySet[ConfigurationRecord], after: str) -> QuerySet[ConfigurationRecord] | None:
    """Return the records before the one with this id; ``None`` if there is no such record."""
    if not _ID.fullmatch(after):
        return None
    seq = ConfigurationRecord.objects.filter(digest=f"rq1:{after}").values_list("seq", flat=True).first()
    return None if seq is None else records.filter(seq__lt=seq)


def record_id(record: ConfigurationRecord) -> str:
    """Return the id of a record: its digest, because a number would show how many changes others made."""
    return record.digest.partition(":")[2]


def states(record: ConfigurationRecord) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """Return the state before and after the change; ``None`` where there is none."""
    if record.action == REMOVED:
        return record.content, None
    return record.before, record.content


def changed_members(record: ConfigurationRecord) -> list[ChangedMember]:
    """Return the members that differ between the two states."""
    before, after = states(record)
    old, new = before or {}, after or {}
    return [
        ChangedMember(
            name=name,
            before=old.get(name),
            after=new.get(name),
            is_new=name not in old,
            is_gone=name not in new,
        )
        for name in dict.fromkeys([*old, *new])
        if name not in old or name not in new or old[name] != new[name]
    ]


def exported(records: QuerySet[ConfigurationRecord]) -> Iterator[dict[str, Any]]:
    """Yield up to ``MAX_EXPORTED`` records, newest first, as members of the JSON and CSV export."""
    for record in _newest(records):
        before, after = states(record)
        yield {
            "id": record_id(record),
            "at": format_datetime(record.at),
            "actor": record.actor,
            "kind": record.kind,
            "name": record.name,
            "action": record.action,
            "agent": None if record.agent is None else record.agent.slug,
            "queue": None if record.queue is None else record.queue.slug,
            "before": before,
            "after": after,
        }


def _newest(records: QuerySet[ConfigurationRecord]) -> Iterator[ConfigurationRecord]:
    """Read few records at a time: a state can be large, and PgBouncer permits no cursor of the server."""
    left, page = MAX_EXPORTED, list(records[: min(READ_AT_ONCE, MAX_EXPORTED)])
    while page:
        yield from page
        left -= len(page)
        page = list(records.filter(seq__lt=page[-1].seq)[: min(READ_AT_ONCE, left)])


def csv_lines(records: QuerySet[ConfigurationRecord]) -> Iterator[str]:
    """Yield the records as lines of CSV (RFC 4180); the two states are JSON texts."""
    lines = csv.writer(_Line())
    yield lines.writerow(COLUMNS)
    for row in exported(records):
        cells = [dumps(row[name]) if name in ("before", "after") else str(row[name] or "") for name in COLUMNS]
        yield lines.writerow(map(inert_cell, cells))


class _Line:
    """A file whose ``write`` returns the text, so that ``writerow`` returns the line."""

    def write(self, text: str) -> str:
        return text


def json_parts(records: QuerySet[ConfigurationRecord]) -> Iterator[str]:
    """Yield the records as parts of a JSON list."""
    separator = "["
    for row in exported(records):
        yield separator + dumps(row)
        separator = ","
    yield "[]" if separator == "[" else "]"
