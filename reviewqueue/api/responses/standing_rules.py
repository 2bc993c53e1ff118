"""Responses about standing rules."""

from __future__ import annotations

from typing import Any

from reviewqueue.api.response_serializers import (
    DATETIME,
    EXACT,
    INTEGER,
    TEXT,
    ResponseSerializer,
    choice,
    list_of,
    member,
    nullable,
)
from reviewqueue.api.responses.runs import NEXT_PAGE
from reviewqueue.standing_rules.administration import STATUS_LABELS, status_of
from runs.standing_rules import TESTS
from runs.states import APPROVING, Verdict

_VERDICTS = sorted({*APPROVING, Verdict.REJECT, Verdict.RESPOND})


class BoundResponse(ResponseSerializer):
    """A bound of one member of the proposal (``StandingRule.bounds``)."""

    pointer = member(TEXT, "JSON Pointer into the proposal.", lambda bound: bound["pointer"])
    test = member(choice(TESTS), "How the member is compared with `value`.", lambda bound: bound["test"])
    value = member(EXACT, "The value.", lambda bound: bound["value"])


class StandingRuleResponse(ResponseSerializer):
    """A standing rule (``StandingRule``)."""

    id = member(TEXT, "Id of the rule.", "public_id")
    status = member(
        choice(STATUS_LABELS),
        "`idle`: its lead cannot have the rule any more, so it decides nothing.",
        lambda rule: status_of(rule, now=rule.read_at),
    )
    queue = member(TEXT, "Slug of the queue.", "queue.slug")
    agent = member(TEXT, "Slug of the agent.", "agent.slug")
    reason = member(TEXT, "Reason of the requests.")
    call = member(TEXT, "Exact name of the call.")
    bounds = member(list_of(BoundResponse), "Bounds that must all allow the proposal.")
    max_uses = member(INTEGER, "How many requests it can decide.")
    used = member(INTEGER, "How many requests it has decided.", lambda rule: rule.used or 0)
    ends_at = member(DATETIME, "Time at which it ends.")
    note = member(TEXT, "Why it was made.")
    made_by = member(TEXT, "Address of the lead who made it.", "made_by.username")
    created_at = member(DATETIME, "Time at which it was made.")
    revoked_at = member(nullable(DATETIME), "Time at which it was revoked; null: it was not.")
    revoked_by = member(
        nullable(TEXT), "Who revoked it; null: it was not revoked.", lambda rule: rule.revoked_by or None
    )
    revoke_reason = member(
        nullable(TEXT), "Why it was revoked; null: it was not.", lambda rule: rule.revoke_reason or None
    )


class StandingRuleListResponse(ResponseSerializer):
    """A page of standing rules (``ListPage``)."""

    rules = member(list_of(StandingRuleResponse), "Rules, newest first.", "rows")
    next = member(nullable(TEXT), NEXT_PAGE)


class VerdictCountResponse(ResponseSerializer):
    """How many of the recent requests people decided with a verdict (verdict, count)."""

    verdict = member(choice(_VERDICTS), "The verdict.", lambda pair: pair[0])
    count = member(INTEGER, "How many.", lambda pair: pair[1])


class StandingRulePreviewResponse(ResponseSerializer):
    """What a standing rule would have decided (``RulePreview``)."""

    waiting = member(INTEGER, "Open requests that it would decide at once.")
    waiting_compared = member(INTEGER, "Open requests that were compared with it.")
    named = member(list_of(TEXT), "Ids of the first of these open requests.")
    recent = member(INTEGER, "Requests of the last 30 days that it would have decided, of those that people decided.")
    recent_compared = member(INTEGER, "Requests of the last 30 days that were compared with it.")
    verdicts = member(
        list_of(VerdictCountResponse), "How people decided these.", lambda preview: _pairs(preview.verdicts)
    )
    too_long = member(INTEGER, "Requests whose call is too long for a preview; they were not compared.")
    oldest = member(
        nullable(INTEGER),
        "Only so many open requests, the oldest, were compared; null: all.",
        lambda it: it.oldest or None,
    )
    newest = member(
        nullable(INTEGER),
        "Only so many of the recent requests, the newest, were compared; null: all.",
        lambda preview: preview.newest or None,
    )


def _pairs(counts: dict[str, int]) -> list[tuple[str, Any]]:
    return list(counts.items())
