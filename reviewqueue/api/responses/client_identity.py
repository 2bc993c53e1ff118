"""The response that tells a client who it is, what its key allows, and its limits."""

from __future__ import annotations

from typing import Any

from django.conf import settings

from ledger.exact_json import MAX_DEPTH
from reviewqueue.api.base_view import BODY_LIMIT
from reviewqueue.api.pagination import MAX_LIMIT
from reviewqueue.api.response_serializers import (
    DATETIME,
    INTEGER,
    TEXT,
    ResponseSerializer,
    choice,
    list_of,
    member,
    nullable,
)
from reviewqueue.api.serializers.fields import MAX_BATCH
from reviewqueue.api.serializers.run_serializers import MAX_CLAIMS, MAX_POLL_SECONDS
from runs.facts import MAX_FACT_CHECKS
from runs.leases import MAX_LEASE_SECONDS, MIN_LEASE_SECONDS
from runs.states import EffectMode, RuleAction


def _fixed(value: Any, meaning: str) -> Any:
    return member(INTEGER, meaning, lambda caller: value)


class EffectRuleResponse(ResponseSerializer):
    """A rule for effects (``EffectRule``)."""

    name = member(TEXT, "Name of an effect, or a pattern with `*` and `?`.", "name_pattern")
    action = member(
        choice(RuleAction.values), "`allow`: the effect may begin. `approval`: it needs an approval with this reason."
    )
    reason = member(
        nullable(TEXT), "Reason code of the approval; null if none is needed.", lambda rule: rule.reason or None
    )


class EffectRulesResponse(ResponseSerializer):
    """Which effects an agent may begin (``Agent``)."""

    mode = member(
        choice(EffectMode.values),
        "`listed`: only effects that a rule names may begin. `any`: all may, and rules name those that need an approval.",
        "effect_mode",
    )
    rules = member(
        list_of(EffectRuleResponse),
        "Rules of the agent. The closest one counts: an exact name, then the longest pattern.",
        lambda agent: agent.effect_rules.order_by("name_pattern"),
    )


class CallingAgentResponse(ResponseSerializer):
    """The agent that a key acts for (``Agent``)."""

    slug = member(TEXT, "Slug of the agent.")
    owner = member(TEXT, "Group of people who own the agent.", "owner.name")
    effects = member(EffectRulesResponse, "Which effects the agent may begin, as its owner has set it.", "*")


class CallingKeyResponse(ResponseSerializer):
    """The key of a call (``ApiKey``)."""

    prefix = member(TEXT, "Beginning of the key, as lists show it; never the secret.", lambda key: f"rq_{key.prefix}")
    name = member(TEXT, "Name that the key was given.")
    scopes = member(list_of(TEXT), "What an agent's key may be used for: run, control, signal.")
    expires_at = member(nullable(DATETIME), "Time at which the key expires; null if it does not.")


class BoundsResponse(ResponseSerializer):
    """Smallest, largest and default value of a number."""

    least = _fixed(MIN_LEASE_SECONDS, "Smallest value.")
    most = _fixed(MAX_LEASE_SECONDS, "Largest value.")
    default = _fixed(60, "Value when left out.")


class LimitsResponse(ResponseSerializer):
    """Limits of this server."""

    body_bytes = _fixed(BODY_LIMIT, "Largest body, in bytes.")
    depth = _fixed(MAX_DEPTH, "How deeply JSON may be nested, in levels.")
    lease_seconds = member(BoundsResponse, "Length of a lease, in seconds.", "*")
    wait_seconds = _fixed(MAX_POLL_SECONDS, "Longest long poll, in seconds.")
    claim = _fixed(MAX_CLAIMS, "Largest number of continuations in one claim.")
    batch = _fixed(MAX_BATCH, "Largest number of items in one batch of asks or decisions.")
    checks = _fixed(MAX_FACT_CHECKS, "Largest number of facts of a checkpoint that have a check.")
    page = _fixed(MAX_LIMIT, "Largest page of a list, in rows.")
    file_bytes = member(
        INTEGER, "Largest file of a checkpoint, in bytes.", lambda caller: settings.CHECKPOINT_FILE_BYTES
    )


class ClientIdentityResponse(ResponseSerializer):
    """The caller (``authentication.Caller``)."""

    agent = member(nullable(CallingAgentResponse), "Agent that the key acts for; null for a personal token.")
    person = member(
        nullable(TEXT),
        "Person of the token, by e-mail address; null for an agent's key.",
        lambda caller: None if caller.person is None else caller.person.get_username(),
    )
    key = member(CallingKeyResponse, "Key of this call.")
    limits = member(LimitsResponse, "Limits of this server.", "*")
