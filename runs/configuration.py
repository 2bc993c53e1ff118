"""The history of the installation's configuration: each policy version and effect rule, chained by digests.

``record_configuration`` is called in the transaction that creates or removes the row. A record keeps the row's columns, so
that a column added by a later version does not make earlier records wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.db.models import OuterRef, QuerySet, Subquery

from ledger import clock
from ledger.canonical import digest
from ledger.row_digests import plain
from ledger.transactions import assert_open
from runs.models import ConfigurationHead, ConfigurationRecord, EffectRule, Policy

CREATED, REMOVED = "created", "removed"
KINDS: dict[type[Policy | EffectRule], str] = {Policy: "policy", EffectRule: "effect_rule"}
HEAD = 1


def record_configuration(row: Policy | EffectRule, *, actor: str, action: str = CREATED) -> ConfigurationRecord:
    """Append one record to the chain."""
    assert_open()
    ConfigurationHead.objects.get_or_create(pk=HEAD)
    head = ConfigurationHead.objects.select_for_update().get(pk=HEAD)
    record = ConfigurationRecord(
        seq=head.seq + 1,
        kind=KINDS[type(row)],
        subject=row.pk,
        action=action,
        content=content_of(row),
        actor=actor[:300],
        at=clock.now(),
        prev=head.digest,
    )
    record.digest = digest(record.covered())
    record.save(force_insert=True)
    ConfigurationHead.objects.filter(pk=HEAD).update(seq=record.seq, digest=record.digest)
    return record


def content_of(row: Policy | EffectRule) -> dict[str, Any]:
    """Return the columns of a configured row as JSON, without its id."""
    fields = [field for field in row._meta.concrete_fields if not field.primary_key]
    return {field.attname: plain(getattr(row, field.attname)) for field in fields}


def changed_columns(row: Policy | EffectRule, content: dict[str, Any]) -> list[str]:
    """Return the columns that differ from what a record kept of the row."""
    now = content_of(row)
    return [name for name, value in content.items() if name not in now or digest(now[name]) != digest(value)]


def recorded_policy(pk: OuterRef) -> Subquery:
    """Return, for an annotation, what the newest record kept of the policy with this id."""
    records = ConfigurationRecord.objects.filter(kind=KINDS[Policy], subject=pk, action=CREATED)
    return Subquery(records.order_by("-seq").values("content")[:1])


def is_as_recorded(policy: Policy, content: dict[str, Any] | None) -> bool:
    """Tell whether a policy is as the record of its creation has it; one without a record was not created here."""
    return content is not None and not changed_columns(policy, content)


# --- verifying --------------------------------------------------------------------------------------------------------


def find_configuration_break() -> str:
    """Return where the chain is broken, empty when it is whole."""
    prev, seq = "", 0
    for record in ConfigurationRecord.objects.order_by("seq").iterator():
        seq += 1
        if record.seq != seq:
            return f"record {seq} is missing"
        if record.prev != prev:
            return f"record {seq} does not follow record {seq - 1}"
        if digest(record.covered()) != record.digest:
            return f"record {seq} was changed"
        prev = record.digest
    head = ConfigurationHead.objects.filter(pk=HEAD).first() or ConfigurationHead()
    return "" if (head.seq, head.digest) == (seq, prev) else f"the end is missing after record {seq}"


def changed_configuration() -> Iterator[str]:
    """Return a sentence for each policy and effect rule that is not as the chain has it."""
    newest = {(record.kind, record.subject): record for record in ConfigurationRecord.objects.order_by("seq")}
    for model, kind in KINDS.items():
        rows: QuerySet[Any] = model._default_manager.order_by("pk")
        for row in rows:
            record = newest.pop((kind, row.pk), None)
            if record is None or record.action == REMOVED:
                yield f"{_in_words(kind)} {row.pk} ({row}) was inserted: no record of its creation"
                continue
            changed = changed_columns(row, record.content)
            if changed:
                yield f"{_in_words(kind)} {row.pk} ({row}) was changed: {', '.join(changed)}"
    for (kind, subject), record in newest.items():
        if record.action == CREATED:
            yield f"{_in_words(kind)} {subject} was deleted: no record of its removal"


def _in_words(kind: str) -> str:
    return kind.replace("_", " ")
