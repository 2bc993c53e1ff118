"""The decorator that describes an operation beside the view's method: who may call it, its bodies, and its refusals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from reviewqueue.api.query_parameters import QueryParameter
from reviewqueue.api.response_serializers import AnyType
from reviewqueue.api.serializers.fields import RequestSerializer

#: A body that is bytes, and not JSON.
BYTES = "bytes"
#: A body that is JSON texts, one a line.
JSON_LINES = "JSON lines"

#: Who can call an operation -> the sentence that describes it.
ANYONE = "Requires no key."
AGENT = "Requires an agent's key with the scope run."
SIGNALLER = "Requires an agent's key with the scope signal."
PERSON = "Requires a personal token; no agent's key can do this."
RECONCILER = "Requires a personal token of an owner or an operator, with access to the reconciliation admin (staff)."
BOTH = "Requires an agent's key, which sees its own data, or a personal token, which sees what its person may see."
CONTROLLER = "Requires an agent's key with the scope control, or a personal token."

ALWAYS_POSSIBLE = (
    "unauthenticated",
    "not_permitted",
    "payload_invalid",
    "payload_too_large",
    "request_too_slow",
    "rate_limited",
    "busy",
    "internal_error",
)
#: Refusals of the key that a call is made with.
OF_A_KEY = {"unauthenticated", "not_permitted", "rate_limited"}
WITH_KEY = ("key_invalid", "key_reused")
#: Refusals of calls under a lease.
UNDER_LEASE = ("not_found", "lease_lost", "run_finished")
#: Refusals of a new run that names a parent.
WITH_PARENT = ("too_deep", "run_finished", "run_cancelled")
#: Refusals of a new interrupt.
ASKING = (
    "policy_refuses",
    "record_changed",
    "correlation_taken",
    "no_decider",
    "schema_unsupported",
    "key_invalid",
    "key_reused",
)
#: Refusals that say how an interrupt was closed.
CLOSED = ("already_decided", "withdrawn", "expired", "superseded", "cancelled")
DECIDING = (
    *CLOSED,
    "already_voted",
    "second_factor_required",
    "self_review",
    "claimed_by_other",
    "stale_version",
    "input_invalid",
    "record_changed",
    *WITH_KEY,
)


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One method of one path.

    ``responses``: HTTP status -> type of the body. ``refusals``: codes besides those that are always possible.
    ``returns_retry_after``: a full long poll answers at once and says when to come back.
    """

    id: str
    summary: str
    who: str
    responses: dict[int, AnyType | str]
    description: str = ""
    request: type[RequestSerializer] | str | None = None
    refusals: tuple[str, ...] = ()
    query: tuple[QueryParameter, ...] = ()
    other_media_types: dict[str, AnyType] = field(default_factory=dict)
    lease: bool = False
    idempotency_key: bool = False
    returns_retry_after: bool = False
    example: str = ""
    example_response: str = ""

    @property
    def codes(self) -> list[str]:
        """Return every code that it may refuse with."""
        key = ("key_invalid",) if self.idempotency_key else ()
        found = {*ALWAYS_POSSIBLE, *key, *self.refusals}
        return sorted(found - OF_A_KEY if self.who == ANYONE else found)

    @property
    def full_description(self) -> str:
        """Return the description with who can call the operation."""
        return " ".join(part for part in (self.description, self.who) if part)


V = TypeVar("V", bound=Callable[..., Any])


def describe(described: Operation) -> Callable[[V], V]:
    """Attach the description of an operation to the view's method."""

    def attach(method: V) -> V:
        method.operation = described  # type: ignore[attr-defined]
        return method

    return attach
