"""What there is to say about an operation, and what all of them share: the query's members, and groups of refusals.

Called by the tables of operations and by `document`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from reviewqueue.api.pagination import MOST
from reviewqueue.api.serializers.fields import Shape
from reviewqueue.api.serializers.run_serializers import LONGEST_POLL
from reviewqueue.queries.insights.scope import PERIODS
from reviewqueue.webhooks.models import DeliveryStatus
from runs.states import InterruptStatus, Risk, RunStatus

AGENT, PERSON, BOTH = "agent", "person", "agent or person"

#: A reply that is bytes, and no shape.
BYTES = "bytes"

#: Who -> the words of it.
WHO = {
    AGENT: "With an agent's key (scope run).",
    PERSON: "With a personal token: no agent's key does this.",
    BOTH: "With an agent's key, which sees its own, or a personal token, which sees what its person may.",
}

EVERYWHERE = (
    "unauthenticated",
    "not_permitted",
    "payload_invalid",
    "payload_too_large",
    "request_too_slow",
    "rate_limited",
    "busy",
    "internal_error",
)
WITH_KEY = ("key_invalid", "key_reused")
#: What a call under a lease may meet.
UNDER_LEASE = ("not_found", "lease_lost", "run_finished")
#: What a new run may meet that names a parent.
UNDER_A_PARENT = ("too_deep", "run_finished", "run_cancelled")
#: What a new wait may meet.
ASKING = (
    "policy_refuses",
    "record_changed",
    "correlation_taken",
    "no_decider",
    "schema_unsupported",
    "key_invalid",
    "key_reused",
)
#: What closed a wait.
CLOSED = ("already_decided", "withdrawn", "expired", "superseded", "cancelled")
DECIDING = (
    *CLOSED,
    "already_voted",
    "self_review",
    "claimed_by_other",
    "stale_version",
    "input_invalid",
    "record_changed",
    *WITH_KEY,
)

_TEXT: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": 500}


def _words(values: list[str]) -> dict[str, Any]:
    return {"type": "string", "enum": values}


#: Member of a query -> its schema and meaning. What stands before a dot tells it from its namesakes.
QUERY: dict[str, tuple[dict[str, Any], str]] = {
    "limit": ({"type": "integer", "minimum": 1, "maximum": MOST, "default": 50}, "Rows on a page."),
    "next": (_TEXT, "The `next` of the page before."),
    "key": (_TEXT, "The run with this key."),
    "queue": (_TEXT, "The slug of a queue."),
    "reason": (_TEXT, "A reason, as policies name them."),
    "agent": (_TEXT, "The slug of an agent."),
    "webhook": (_TEXT, "The id of an endpoint."),
    "risk": (_words(Risk.values), "How much depends on it."),
    "code_version": (_TEXT, "The version of your code that is about to run."),
    "accepts": (_TEXT, "Older versions that it goes on from, with commas between them."),
    "runs.status": (_words(RunStatus.values), "Where they stand."),
    "interrupts.status": (_words(InterruptStatus.values), "Where they stand."),
    "signals.status": (_words(["kept", "used", "dead"]), "Where they stand."),
    "correlation": (_TEXT, "Those of this correlation."),
    "deliveries.status": (_words(DeliveryStatus.values), "Where they stand."),
    "wait": (
        {"type": "integer", "minimum": 0, "maximum": LONGEST_POLL, "default": 0},
        "How long to wait until it leaves `waiting`, in seconds.",
    ),
    "after": ({"type": "integer", "minimum": 0, "default": 0}, "The sequence of the last event that you know."),
    "days": (_words([str(period) for period in PERIODS]) | {"default": "30"}, "Over how many days, today among them."),
    "insights.format": (_words(["json", "csv"]) | {"default": "json"}, "JSON, or a sheet."),
    "schema.format": (_words(["json", "yaml"]) | {"default": "json"}, "How it is written."),
}


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One method of one address. ``replies``: status -> the reply's shape; ``refusals``: codes beside those everywhere."""

    id: str
    summary: str
    who: str
    replies: dict[int, str]
    words: str = ""
    takes: type[Shape] | None = None
    refusals: tuple[str, ...] = ()
    query: tuple[str, ...] = ()
    lease: bool = False
    idempotency_key: bool = False
    takes_bytes: bool = False
    example: str = ""
    example_reply: str = ""

    @property
    def codes(self) -> list[str]:
        """Return every code that it may refuse with."""
        key = ("key_invalid",) if self.idempotency_key else ()
        return sorted({*EVERYWHERE, *key, *self.refusals})

    @property
    def described(self) -> str:
        """Return its description."""
        return " ".join(part for part in (self.words, WHO[self.who]) if part)
