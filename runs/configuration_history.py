"""The audit log of administration, chained by digests: policy versions, effect rules, agents, and every other change.

``record_configuration`` is called in the transaction that creates, changes or removes a policy, an effect rule or an
agent's effect mode. Its record stores the row's columns, so that a column added later does not invalidate earlier
records. A record of an agent stores its effect mode and all its effect rules, so that one record says which effects the
agent can begin. ``record_administration`` records every other change, with a state that the caller gives.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from django.db.models import OuterRef, QuerySet, Subquery, TextField
from django.db.models.functions import Cast
from django.utils.translation import gettext_noop

from ledger import clock
from ledger.digests import canonical, digest
from ledger.row_digests import column_as_json
from ledger.transactions import assert_in_transaction
from runs.models import Agent, ConfigurationHead, ConfigurationRecord, EffectRule, Policy, Queue, StandingRule

CREATED, CHANGED, REMOVED = "created", "changed", "removed"
Configured = Policy | EffectRule | Agent | StandingRule
KINDS: dict[type[Configured], str] = {
    Policy: "policy",
    EffectRule: "effect_rule",
    Agent: "agent",
    StandingRule: "standing_rule",
}
HEAD = 1

#: Kinds of subjects in the audit log, with their labels. Rows of `KINDS` are compared with their records.
KIND_LABELS = {
    "policy": gettext_noop("Policy"),
    "effect_rule": gettext_noop("Effect rule"),
    "agent": gettext_noop("Effects of an agent"),
    "standing_rule": gettext_noop("Standing rule"),
    "agent_settings": gettext_noop("Agent"),
    "halt": gettext_noop("Kill switch"),
    "key": gettext_noop("API key"),
    "connection": gettext_noop("Connection"),
    "call_label": gettext_noop("Call label"),
    "webhook": gettext_noop("Webhook endpoint"),
    "queue": gettext_noop("Queue"),
    "chat_channel": gettext_noop("Chat channel"),
    "person": gettext_noop("Person"),
    "group": gettext_noop("Group"),
    "message": gettext_noop("Dead letter"),
    "planted_request": gettext_noop("Planted request"),
}


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What a record of the audit log is about. Owners of ``agent`` and ``queue`` can read the record."""

    kind: str
    pk: int
    name: str
    agent: Agent | None = None
    queue: Queue | None = None


def record_administration(
    subject: Subject, *, actor: str, action: str, after: dict[str, Any], before: dict[str, Any] | None = None
) -> ConfigurationRecord:
    """Append one record of a change that is no policy, effect rule or effect mode. The states contain no secrets.

    ``after``: the state after the change; of a removal, the state before it.
    """
    head = lock_head()
    record = _append(head, subject, after, before=before, action=action, actor=actor)
    ConfigurationHead.objects.filter(pk=HEAD).update(seq=head.seq, digest=head.digest)
    return record


def lock_head() -> ConfigurationHead:
    """Lock the end of the chain until the end of the transaction, so that no other change of the configuration begins."""
    assert_in_transaction()
    ConfigurationHead.objects.get_or_create(pk=HEAD)
    return ConfigurationHead.objects.select_for_update().get(pk=HEAD)


def record_configuration(row: Configured, *, actor: str, action: str = CREATED) -> ConfigurationRecord:
    """Append one record to the chain, and for an effect rule also one of its agent.

    An agent's record is derived from its previous record, not from the rows, so that a change made in the database
    itself stays visible after the next recorded change.
    """
    head = lock_head()
    content = _next_of_agent(row) if isinstance(row, Agent) else configured_content(row)
    record = _append(head, _subject_of(row), content, before=_content_before(row), action=action, actor=actor)
    if isinstance(row, EffectRule):
        before, permitted = _content_before(row.agent), _next_of_agent(row.agent, rule=row, action=action)
        _append(head, _subject_of(row.agent), permitted, before=before, action=CHANGED, actor=actor)
    ConfigurationHead.objects.filter(pk=HEAD).update(seq=head.seq, digest=head.digest)
    return record


def _subject_of(row: Configured) -> Subject:
    if isinstance(row, Agent):
        return Subject(kind="agent", pk=row.pk, name=row.slug, agent=row)
    if isinstance(row, EffectRule):
        return Subject(kind="effect_rule", pk=row.pk, name=row.name_pattern, agent=row.agent)
    if isinstance(row, StandingRule):
        return Subject(kind="standing_rule", pk=row.pk, name=row.public_id, agent=row.agent, queue=row.queue)
    return Subject(kind="policy", pk=row.pk, name=str(row), agent=row.agent, queue=row.queue)


def _content_before(row: Configured) -> dict[str, Any] | None:
    """Return the content of the last record of the row, and for a policy the rules of the version before it."""
    if isinstance(row, Policy):
        last = Policy.objects.filter(reason=row.reason, agent=row.agent_id, version__lt=row.version)
        version = last.order_by("-version").first()
        return None if version is None else configured_content(version)
    records = ConfigurationRecord.objects.filter(kind=KINDS[type(row)], subject=row.pk).order_by("-seq")
    content: dict[str, Any] | None = records.values_list("content", flat=True).first()
    return content


def _append(
    head: ConfigurationHead,
    subject: Subject,
    content: dict[str, Any],
    *,
    before: dict[str, Any] | None,
    action: str,
    actor: str,
) -> ConfigurationRecord:
    record = ConfigurationRecord(
        seq=head.seq + 1,
        kind=subject.kind,
        subject=subject.pk,
        name=subject.name[:300],
        agent=subject.agent,
        queue=subject.queue,
        action=action,
        content=content,
        before=before,
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
    return {name: column_as_json(getattr(row, name)) for name in _columns_of(type(row))}


@functools.cache
def _columns_of(model: type[Configured]) -> list[str]:
    return [field.attname for field in model._meta.concrete_fields if not field.primary_key]


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
    if content is None:
        return False
    now = configured_content(policy)
    same_columns = {name: now[name] for name in content if name in now}
    return _as_text(same_columns) == _as_text(content) or not changed_columns(policy, content)


def digest_of_record(content: dict[str, Any]) -> str:
    """Return the digest of the content of a record."""
    return _digest_of_text(_as_text(content))


@functools.lru_cache(maxsize=512)
def _digest_of_text(text: str) -> str:
    return digest(json.loads(text))


def _as_text(content: dict[str, Any]) -> str:
    """Return a JSON text, faster than the canonical one. Equal texts are equal contents, but not the other way round."""
    return json.dumps(content, sort_keys=True)


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
    records = ConfigurationRecord.objects.filter(kind__in=KINDS.values())
    newest = {(record.kind, record.subject): record for record in records.order_by("seq")}
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
