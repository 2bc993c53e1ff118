"""The history of the configuration: policy versions, effect rules and agents, chained by digests.

``record_configuration`` is called in the transaction that creates, changes or removes the row. A record stores the
row's columns, so that a column added later does not invalidate earlier records. A record of an agent stores its effect
mode and all its effect rules, so that one record says which effects the agent can begin.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from django.db.models import OuterRef, QuerySet, Subquery, TextField
from django.db.models.functions import Cast

from ledger import clock
from ledger.digests import canonical, digest
from ledger.row_digests import column_as_json
from ledger.transactions import assert_in_transaction
from runs.models import Agent, ConfigurationHead, ConfigurationRecord, EffectRule, Policy

CREATED, CHANGED, REMOVED = "created", "changed", "removed"
Configured = Policy | EffectRule | Agent
KINDS: dict[type[Configured], str] = {Policy: "policy", EffectRule: "effect_rule", Agent: "agent"}
HEAD = 1


def record_configuration(row: Configured, *, actor: str, action: str = CREATED) -> ConfigurationRecord:
    """Append one record to the chain, and for an effect rule also one of its agent.

    An agent's record is derived from its previous record, not from the rows, so that a change made in the database
    itself stays visible after the next recorded change.
    """
    assert_in_transaction()
    ConfigurationHead.objects.get_or_create(pk=HEAD)
    head = ConfigurationHead.objects.select_for_update().get(pk=HEAD)
    content = _next_of_agent(row) if isinstance(row, Agent) else configured_content(row)
    record = _append(head, row, content, action=action, actor=actor)
    if isinstance(row, EffectRule):
        permitted = _next_of_agent(row.agent, rule=row, action=action)
        _append(head, row.agent, permitted, action=CHANGED, actor=actor)
    ConfigurationHead.objects.filter(pk=HEAD).update(seq=head.seq, digest=head.digest)
    return record


def _append(
    head: ConfigurationHead, row: Configured, content: dict[str, Any], *, action: str, actor: str
) -> ConfigurationRecord:
    record = ConfigurationRecord(
        seq=head.seq + 1,
        kind=KINDS[type(row)],
        subject=row.pk,
        action=action,
        content=content,
        actor=actor[:300],
        at=clock.now(),
        prev=head.digest,
    )
    record.digest = digest(record.covered())
    record.save(force_insert=True)
    head.seq, head.digest = record.seq, record.digest
    return record


def _next_of_agent(agent: Agent, *, rule: EffectRule | None = None, action: str = CREATED) -> dict[str, Any]:
    """Return the newest record of the agent with one rule added or removed, or (without a rule) with its mode of now."""
    last = ConfigurationRecord.objects.filter(kind=KINDS[Agent], subject=agent.pk).order_by("-seq").first()
    if last is None:
        return configured_content(agent)
    if rule is None:
        return {**last.content, "effect_mode": str(agent.effect_mode)}
    others = [kept for kept in last.content["effect_rules"] if kept[0] != rule.name_pattern]
    added = [] if action == REMOVED else [[rule.name_pattern, str(rule.action), rule.reason]]
    return {**last.content, "effect_rules": sorted([*others, *added])}


def configured_content(row: Configured) -> dict[str, Any]:
    """Return the columns of a row as JSON, without its id; for an agent the effects that it can begin."""
    if isinstance(row, Agent):
        rules = row.effect_rules.values_list("name_pattern", "action", "reason")
        return effects_content(str(row.effect_mode), rules)
    fields = [field for field in row._meta.concrete_fields if not field.primary_key]
    return {field.attname: column_as_json(getattr(row, field.attname)) for field in fields}


def effects_content(mode: str, rules: Iterable[tuple[str, str, str]]) -> dict[str, Any]:
    """Return the content of an agent's record: its effect mode, and pattern, action and reason of each effect rule."""
    return {"effect_mode": mode, "effect_rules": sorted([*rule] for rule in rules)}


def changed_columns(row: Configured, content: dict[str, Any]) -> list[str]:
    """Return the columns of a row that differ from a record's content."""
    now = configured_content(row)
    return [name for name, value in content.items() if name not in now or canonical(now[name]) != canonical(value)]


def recorded_effects(pk: OuterRef) -> Subquery:
    """Return the annotation with the JSON text of an agent's newest record."""
    records = ConfigurationRecord.objects.filter(kind=KINDS[Agent], subject=pk).order_by("-seq")
    return Subquery(records.values_list(Cast("content", TextField()))[:1])


def recorded_policy(pk: OuterRef) -> Subquery:
    """Return the annotation with the content of the record of a policy's creation."""
    records = ConfigurationRecord.objects.filter(kind=KINDS[Policy], subject=pk, action=CREATED)
    return Subquery(records.order_by("-seq").values("content")[:1])


def is_as_recorded(policy: Policy, content: dict[str, Any] | None) -> bool:
    """Tell whether a policy equals the record of its creation; without a record it was inserted in the database itself."""
    return content is not None and not changed_columns(policy, content)


# --- verifying --------------------------------------------------------------------------------------------------------


def find_broken_configuration_chain() -> str:
    """Return a sentence on where the chain of records is broken; empty when it is not."""
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


def find_changed_configuration() -> Iterator[str]:
    """Yield a sentence for each policy, effect rule and agent that differs from its newest record."""
    newest = {(record.kind, record.subject): record for record in ConfigurationRecord.objects.order_by("seq")}
    for model, kind in KINDS.items():
        rows: QuerySet[Any] = model._default_manager.order_by("pk")
        for row in rows:
            record = newest.pop((kind, row.pk), None)
            if record is None or record.action == REMOVED:
                yield f"{_label(kind)} {row.pk} ({row}) was inserted: no record of its creation"
                continue
            changed = changed_columns(row, record.content)
            if changed:
                yield f"{_label(kind)} {row.pk} ({row}) was changed: {', '.join(changed)}"
    for (kind, subject), record in newest.items():
        if record.action != REMOVED:
            yield f"{_label(kind)} {subject} was deleted: no record of its removal"


def _label(kind: str) -> str:
    return kind.replace("_", " ")
