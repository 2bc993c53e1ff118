"""Admin pages of agents, effect rules, call labels, connections, queues, policies and API keys."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest

from reviewqueue.admin.base import ReadOnlyAdmin
from reviewqueue.models import ApiKey
from runs.errors import PolicyRefuses
from runs.models import Agent, CallLabel, Connection, EffectRule, Policy, Queue
from runs.policies import allowed_queues, current_policy, rules_with_any_queue
from runs.states import RuleAction

#: Shown if the agent can choose who approves.
ANY_QUEUE = "Warning: any queue."


@admin.register(Agent)
class AgentAdmin(ReadOnlyAdmin):
    owner = "owner"
    list_display = ["slug", "owner", "effect_mode", "max_attempts", "created_at"]


@admin.register(EffectRule)
class EffectRuleAdmin(ReadOnlyAdmin):
    owner = "agent__owner"
    list_display = ["agent", "name_pattern", "action", "reason", "approved_in"]

    @admin.display(description="approved in")
    def approved_in(self, rule: EffectRule) -> str:
        if rule.action == RuleAction.ALLOW:
            return "-"
        try:
            policy = current_policy(rule.agent, rule.reason)
        except PolicyRefuses:
            return "no policy for this reason"
        return ANY_QUEUE if policy.any_queue else ", ".join(allowed_queues(policy))


@admin.register(CallLabel)
class CallLabelAdmin(ReadOnlyAdmin):
    owner = "agent__owner"
    list_display = ["agent", "name", "sentence"]


@admin.register(Connection)
class ConnectionAdmin(ReadOnlyAdmin):
    owner = "agent__owner"
    list_display = ["agent", "name", "base_url"]


@admin.register(Queue)
class QueueAdmin(ReadOnlyAdmin):
    owner = "owner"
    list_display = ["slug", "owner", "reviewers", "leads", "auditors", "accepts_new"]


@admin.register(Policy)
class PolicyAdmin(ReadOnlyAdmin):
    """Policies are versions: `manage.py add_policy` adds the next one, and existing ones never change."""

    list_display = ["reason", "version", "agent", "queue", "may_name", "on_expiry", "deadline_default", "permit_ttl"]
    list_filter = ["reason"]

    def get_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        return [*super().get_fields(request, obj), "may_name"]

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        return [*super().get_readonly_fields(request, obj), "may_name"]

    @admin.display(description="queues a request can name")
    def may_name(self, policy: Policy) -> str:
        if not policy.any_queue:
            return ", ".join(allowed_queues(policy))
        dependent = [rule for rule, open_policy in rules_with_any_queue(reason=policy.reason) if open_policy == policy]
        rules = ", ".join(f"{rule.name_pattern} of {rule.agent.slug}" for rule in dependent)
        return f"{ANY_QUEUE} Effect rules depend on it: {rules}." if rules else "any queue"


@admin.register(ApiKey)
class ApiKeyAdmin(ReadOnlyAdmin):
    """Keys by their prefix. The secret is not stored, and its hash is not shown."""

    list_display = ["__str__", "agent", "person", "name", "created_at", "expires_at", "revoked_at", "last_used_at"]
    shows = ["prefix", "agent", "person", "scopes", "name", "created_at", "expires_at", "revoked_at", "last_used_at"]
