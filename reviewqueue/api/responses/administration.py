"""Responses about administration: the audit log, agents with their keys, queues, policies, rules and connections."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from reviewqueue.api.response_serializers import (
    BOOLEAN,
    DATETIME,
    DURATION,
    EXACT,
    INTEGER,
    OBJECT,
    TEXT,
    ResponseSerializer,
    choice,
    list_of,
    member,
    nullable,
)
from reviewqueue.api.responses.runs import NEXT_PAGE
from reviewqueue.api.serializers.administration_serializers import RULE_FIELDS
from reviewqueue.operations.provisioning.policies import CHOICES, DURATIONS, FLAGS, NUMBERS, POLICY_RULES, DraftPolicy
from reviewqueue.operations.queue_administration import state_token
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


class CallArgumentResponse(ResponseSerializer):
    """How an argument of a call is shown (argument and its label)."""

    argument = member(TEXT, "Name of the argument.", lambda pair: pair[0])
    label = member(TEXT, "Label of the argument.", lambda pair: pair[1].get("label", ""))
    unit = member(nullable(TEXT), "Unit of its value; null without one.", lambda pair: pair[1].get("unit") or None)


class CallLabelResponse(ResponseSerializer):
    """The sentence by which reviewers read a call (``CallLabel``)."""

    name = member(TEXT, "Name of the call.")
    sentence = member(TEXT, "Sentence, with the names of arguments in braces.")
    arguments = member(
        list_of(CallArgumentResponse), "Labels and units of its arguments.", lambda label: label.arguments.items()
    )


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
    call_labels = member(
        list_of(CallLabelResponse), "Its call labels.", lambda agent: agent.call_labels.order_by("name")
    )
    created_at = member(DATETIME, "Time at which the agent was added.")


class AgentListResponse(ResponseSerializer):
    """The agents that the person administers (list of ``Agent``)."""

    agents = member(list_of(TEXT), "Slugs of the agents.", lambda agents: [agent.slug for agent in agents])


class NewAgentResponse(NewKeyResponse):
    """A new agent's first key (``NewKey``)."""

    agent = member(TEXT, "Slug of the agent.", "key.agent.slug")


class QueueResponse(ResponseSerializer):
    """A queue with the groups of its people (``Queue``)."""

    queue = member(TEXT, "Slug of the queue.", "slug")
    owner = member(TEXT, "Name of its owner group.", "owner.name")
    reviewers = member(TEXT, "Name of the group of its reviewers.", "reviewers.name")
    leads = member(TEXT, "Name of the group of its leads.", "leads.name")
    auditors = member(TEXT, "Name of the group of its auditors.", "auditors.name")
    accepts_new = member(BOOLEAN, "Whether new requests can go to it.")
    state = member(TEXT, "Digest of what can be changed; a change names the state that its author read.", state_token)


class QueueListResponse(ResponseSerializer):
    """The queues that the person administers (list of ``Queue``)."""

    queues = member(list_of(QueueResponse), "Queues, by name.", "*")


class EscalationStepResponse(ResponseSerializer):
    """A further queue of an escalation (step of a policy)."""

    queue = member(TEXT, "Name of the queue.", lambda step: step["queue"])
    wait = member(DURATION, "Time to the deadline in this queue.", lambda step: timedelta(seconds=step["seconds"]))


def _rule(name: str) -> Any:
    meaning = RULE_FIELDS[name].help_text
    if name in ("queue", "escalate_to"):
        return member(nullable(TEXT), meaning, lambda policy: getattr(getattr(policy, name), "slug", None))
    if name == "remind_before":
        return member(list_of(DURATION), meaning, lambda policy: [timedelta(seconds=it) for it in policy.remind_before])
    if name in CHOICES:
        return member(choice(CHOICES[name][1]), meaning, lambda policy: str(getattr(policy, name)))
    of_kind: dict[str, Any] = {"queues": list_of(TEXT), "on_expiry_allowed": list_of(TEXT)}
    of_kind |= {"escalate_further": list_of(EscalationStepResponse)}
    of_kind |= dict.fromkeys(DURATIONS, DURATION) | dict.fromkeys(FLAGS, BOOLEAN) | dict.fromkeys(NUMBERS, INTEGER)
    return member(of_kind[name], meaning)


#: Every rule of a policy, declared from the fields of a request.
PolicyRulesResponse: type[ResponseSerializer] = type(
    "PolicyRulesResponse",
    (ResponseSerializer,),
    {"__doc__": "The rules of a policy (``Policy``)."} | {name: _rule(name) for name in POLICY_RULES},
)


class PolicyResponse(ResponseSerializer):
    """A version of a policy (``Policy``)."""

    reason = member(TEXT, "Reason of the requests that it applies to.")
    agent = member(
        nullable(TEXT),
        "Slug of its agent; null: every agent without a policy of its own.",
        lambda it: it.agent and it.agent.slug,
    )
    version = member(INTEGER, "Number of the version.")
    rules = member(PolicyRulesResponse, "Its rules.", "*")
    created_at = member(DATETIME, "Time at which the version was added.")


class PolicyListResponse(ResponseSerializer):
    """The newest version of each policy (list of ``Policy``)."""

    policies = member(list_of(PolicyResponse), "Policies, by reason and agent.", "*")


class ChangedRuleResponse(ResponseSerializer):
    """A rule that a new version changes (name, value before and after)."""

    rule = member(choice(POLICY_RULES), "Name of the rule.", lambda changed: changed[0])
    before = member(EXACT, "Its value in the version before; null without one.", lambda changed: changed[1])
    after = member(EXACT, "Its value in the new version.", lambda changed: changed[2])


class OpenRequestsResponse(ResponseSerializer):
    """Open requests under one version of a policy in one queue (``OpenRequests``)."""

    version = member(INTEGER, "The version that they keep.")
    queue = member(nullable(TEXT), "Slug of their queue; null without one.", lambda it: it.queue or None)
    count = member(INTEGER, "How many requests are open.")


class PolicyPreviewResponse(ResponseSerializer):
    """What a new version would change (``PolicyPreview``)."""

    version = member(INTEGER, "Number that the version would get.", "draft.policy.version")
    based_on = member(
        INTEGER, "The newest version; 0: none.", lambda preview: preview.draft.last.version if preview.draft.last else 0
    )
    changes = member(list_of(ChangedRuleResponse), "Rules that differ.", lambda preview: _changed_rules(preview.draft))
    queues_added = member(list_of(TEXT), "Queues that requests could newly go to; `any`: every queue.")
    queues_removed = member(list_of(TEXT), "Queues that requests could no longer go to.")
    open_requests = member(list_of(OpenRequestsResponse), "Open requests, which keep their version.")
    applies_at_once = member(list_of(TEXT), "Stricter rules that also limit open requests, as sentences.")


def _changed_rules(draft: DraftPolicy) -> list[tuple[str, Any, Any]]:
    after = PolicyRulesResponse.serialize(draft.policy)
    before = PolicyRulesResponse.serialize(draft.last) if draft.last else dict.fromkeys(after)
    return [(name, before[name], after[name]) for name in draft.changed]
