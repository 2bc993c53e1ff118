"""The desks of what is known here: agents and what their owners set for them, queues, policies, keys."""

from __future__ import annotations

from django.contrib import admin

from reviewqueue.admin.desks import Desk
from reviewqueue.models import ApiKey
from runs.models import Agent, CallLabel, Connection, EffectRule, Policy, Queue


@admin.register(Agent)
class AgentDesk(Desk):
    owner = "owner"
    list_display = ["slug", "owner", "max_attempts", "created_at"]


@admin.register(EffectRule)
class EffectRuleDesk(Desk):
    owner = "agent__owner"
    list_display = ["agent", "name_pattern", "reason"]


@admin.register(CallLabel)
class CallLabelDesk(Desk):
    owner = "agent__owner"
    list_display = ["agent", "name", "sentence"]


@admin.register(Connection)
class ConnectionDesk(Desk):
    owner = "agent__owner"
    list_display = ["agent", "name", "base_url"]


@admin.register(Queue)
class QueueDesk(Desk):
    owner = "owner"
    list_display = ["slug", "owner", "reviewers", "leads", "auditors", "accepts_new"]


@admin.register(Policy)
class PolicyDesk(Desk):
    """Rows are versions: the command `add_policy` makes the next one, nobody changes one."""

    list_display = ["reason", "version", "agent", "queue", "on_expiry", "deadline_default", "permit_ttl"]
    list_filter = ["reason"]


@admin.register(ApiKey)
class ApiKeyDesk(Desk):
    """Keys by their prefix; the secret is nowhere, and its hash is not shown."""

    list_display = ["__str__", "agent", "person", "name", "created_at", "expires_at", "revoked_at", "last_used_at"]
    shows = ["prefix", "agent", "person", "scopes", "name", "created_at", "expires_at", "revoked_at", "last_used_at"]
