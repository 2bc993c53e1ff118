"""What the audit log stores about each row that administrators change. No state contains a secret.

Policies, effect rules and effect modes are recorded by `runs.configuration_history`, halts by `runs.kill_switch`, webhook
endpoints by `reviewqueue.webhooks.endpoints`.
"""

from __future__ import annotations

from typing import Any

from ledger.row_digests import column_as_json
from reviewqueue.models import ApiKey, ChatChannel
from runs.configuration_history import CREATED, Subject, record_administration
from runs.models import Agent, CallLabel, Connection, Queue

Administered = Agent | ApiKey | CallLabel | ChatChannel | Connection | Queue


def record(
    row: Administered, *, actor: str, action: str = CREATED, before: dict[str, Any] | None = None, **details: Any
) -> None:
    """Record a change of the row in the transaction that makes it. ``details`` are JSON values about the change itself."""
    record_administration(subject_of(row), actor=actor, action=action, before=before, after=state_of(row) | details)


def subject_of(row: Administered) -> Subject:
    """Return whose change it is: owners of the agent or queue can read the record."""
    match row:
        case Agent():
            return Subject(kind="agent_settings", pk=row.pk, name=row.slug, agent=row)
        case ApiKey():
            return Subject(kind="key", pk=row.pk, name=f"rq_{row.prefix}", agent=row.agent)
        case CallLabel():
            return Subject(kind="call_label", pk=row.pk, name=row.name, agent=row.agent)
        case ChatChannel():
            return Subject(kind="chat_channel", pk=row.pk, name=row.variable, queue=row.queue)
        case Connection():
            return Subject(kind="connection", pk=row.pk, name=row.name, agent=row.agent)
        case Queue():
            return Subject(kind="queue", pk=row.pk, name=row.slug, queue=row)


def state_of(row: Administered) -> dict[str, Any]:
    """Return the state of a row as the audit log stores it."""
    match row:
        case Agent():
            return {"owner": row.owner.name, "max_attempts": row.max_attempts}
        case ApiKey():
            holder = {} if row.person is None else {"person": row.person.username}
            times = {name: column_as_json(getattr(row, name)) for name in ("expires_at", "revoked_at")}
            return {"name": row.name, "scopes": list(row.scopes), **times, **holder}
        case CallLabel():
            return {"sentence": row.sentence, "arguments": row.arguments}
        case ChatChannel():
            return {"variable": row.variable, "min_risk": str(row.min_risk)}
        case Connection():
            return {"base_url": row.base_url, "secret": row.secret}
        case Queue():
            groups = {name: getattr(row, name).name for name in ("owner", "reviewers", "leads", "auditors")}
            return groups | {"accepts_new": row.accepts_new}
