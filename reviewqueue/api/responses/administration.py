"""Responses about administration: the audit log, agents with their keys, queues, policies, rules and connections."""

from __future__ import annotations

from reviewqueue.api.response_serializers import (
    BOOLEAN,
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
from runs.states import EffectMode


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


class KeyResponse(ResponseSerializer):
    """An API key of an agent, without its secret (``ApiKey``)."""

    id = member(TEXT, "First part of the key.", lambda key: f"rq_{key.prefix}")
    name = member(TEXT, "What the key is for.")
    scopes = member(list_of(TEXT), "What the key can do.")
    created_at = member(DATETIME, "Time at which the key was made.")
    expires_at = member(nullable(DATETIME), "Time at which the key expires; null: never.")
    revoked_at = member(nullable(DATETIME), "Time at which the key was revoked; null while it is not.")
    last_used_at = member(nullable(DATETIME), "Time of the last call, within a minute; null: never used.")


class KeyListResponse(ResponseSerializer):
    """The keys of an agent (list of ``ApiKey``)."""

    keys = member(list_of(KeyResponse), "Keys, revoked ones last.", "*")


class NewKeyResponse(ResponseSerializer):
    """A new key with its secret (``NewKey``)."""

    key = member(TEXT, "The whole key. No other response has it.", "text")
    details = member(KeyResponse, "The key without its secret.", "key")


class ConfiguredEffectRuleResponse(ResponseSerializer):
    """An effect rule (``EffectRule``)."""

    pattern = member(TEXT, "Name of the effects, or a pattern.", "name_pattern")
    reason = member(
        nullable(TEXT), "Reason of the required approval; null: allowed without.", lambda rule: rule.reason or None
    )


class ConnectionResponse(ResponseSerializer):
    """A connection (``Connection``)."""

    name = member(TEXT, "Name of the connection.")
    url = member(TEXT, "Base address.", "base_url")
    secret = member(
        nullable(TEXT), "Environment variable with its secret; null without one.", lambda row: row.secret or None
    )


class ConnectionTestResponse(ResponseSerializer):
    """The result of a test call (why it failed; empty: it succeeded)."""

    succeeded = member(BOOLEAN, "Whether the server answered with JSON.", lambda trouble: not trouble)
    trouble = member(nullable(TEXT), "Why the call failed; null if it succeeded.", lambda trouble: trouble or None)


class AdministeredAgentResponse(ResponseSerializer):
    """An agent and what is configured for it (``Agent``)."""

    agent = member(TEXT, "Slug of the agent.", "slug")
    owner = member(TEXT, "Name of its owner group.", "owner.name")
    effects = member(choice(EffectMode.values), "Which effects it can begin: listed ones, or any.", "effect_mode")
    effect_rules = member(
        list_of(ConfiguredEffectRuleResponse),
        "Its effect rules.",
        lambda agent: agent.effect_rules.order_by("name_pattern"),
    )
    connections = member(
        list_of(ConnectionResponse), "Its connections.", lambda agent: agent.connections.order_by("name")
    )
    created_at = member(DATETIME, "Time at which the agent was added.")


class AgentListResponse(ResponseSerializer):
    """The agents that the person administers (list of ``Agent``)."""

    agents = member(list_of(TEXT), "Slugs of the agents.", lambda agents: [agent.slug for agent in agents])


class NewAgentResponse(NewKeyResponse):
    """A new agent's first key (``NewKey``)."""

    agent = member(TEXT, "Slug of the agent.", "key.agent.slug")
