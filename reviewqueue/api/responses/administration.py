"""Responses about administration: the audit log, agents with their keys, queues, policies, rules and connections."""

from __future__ import annotations

from reviewqueue.api.response_serializers import (
    DATETIME,
    OBJECT,
    TEXT,
    ResponseSerializer,
    choice,
    list_of,
    member,
    nullable,
)
from reviewqueue.api.responses.runs import NEXT_PAGE
from reviewqueue.queries.audit_log import record_id, states
from runs.configuration_history import KIND_LABELS


class AuditRecordResponse(ResponseSerializer):
    """One administrative change (``ConfigurationRecord``)."""

    id = member(TEXT, "Digest of the record, in hexadecimal.", record_id)
    at = member(DATETIME, "Time of the change.")
    actor = member(TEXT, "Who made it: `person:<address>`, `agent:<slug>` or `system:command`.")
    kind = member(choice(KIND_LABELS), "What was changed.")
    name = member(TEXT, "Name of what was changed; empty in records of older versions.")
    action = member(TEXT, "What was done: created, changed, removed, revoked and so on.")
    agent = member(
        nullable(TEXT), "Slug of its agent; null without one.", lambda record: record.agent and record.agent.slug
    )
    queue = member(
        nullable(TEXT), "Slug of its queue; null without one.", lambda record: record.queue and record.queue.slug
    )
    before = member(nullable(OBJECT), "State before the change; null without one.", lambda record: states(record)[0])
    after = member(nullable(OBJECT), "State after the change; null after a removal.", lambda record: states(record)[1])


class AuditLogResponse(ResponseSerializer):
    """A page of the audit log (``ListPage``)."""

    records = member(list_of(AuditRecordResponse), "Changes, newest first.", "rows")
    next = member(nullable(TEXT), NEXT_PAGE)
