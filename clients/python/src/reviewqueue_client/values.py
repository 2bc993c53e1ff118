"""The values that a claim brings: answers, facts, and what an effect may declare."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Required, TypedDict

from reviewqueue_client.errors import DigestMismatch

API = "/api/v1/"
#: Where the server has the bytes of an attachment. Anything else could lead the agent's key to another place.
ATTACHMENT_URL = re.compile(r"/api/v1/interrupts/int_[A-Za-z0-9_.~%!*'()-]+/attachments/sha256:[0-9a-f]+")


@dataclass(frozen=True, kw_only=True)
class Attachment:
    """A file that a reviewer attached. ``digest``: the text in the answer's `input`. ``size``: in bytes."""

    digest: str
    name: str
    media_type: str
    size: int
    url: str

    @property
    def path(self) -> str:
        """Return the path of the bytes below `/api/v1/`. Raises ``ValueError`` for any other URL."""
        if not ATTACHMENT_URL.fullmatch(self.url):
            raise ValueError(
                f"The URL of an attachment must be {API}interrupts/ID/attachments/DIGEST (got {self.url})."
            )
        return self.url.removeprefix(API)

    def verify(self, content: bytes) -> bytes:
        """Return ``content``. Raises ``DigestMismatch`` if it is not this file."""
        arrived = f"sha256:{hashlib.sha256(content).hexdigest()}"
        if arrived != self.digest:
            raise DigestMismatch(self.digest, arrived)
        return content

    @classmethod
    def of(cls, sent: Mapping[str, Any]) -> Attachment:
        """Return the attachment of a response; members that this version does not know are ignored."""
        return cls(**{name: sent[name] for name in ("digest", "name", "media_type", "size", "url")})


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The answer to one request. ``verdict`` is None if the deadline passed and the run continues without an answer."""

    key: str
    verdict: str | None
    input: Any
    arguments: dict[str, Any] | None
    changed: list[dict[str, Any]]
    message: str | None
    decided_by: str
    decided_at: str
    decision: str
    cause: str
    permit: str | None
    signal: dict[str, Any] | None
    attachments: list[Attachment] = field(default_factory=list)

    @property
    def approved(self) -> bool:
        """Return whether the proposed call may be performed, as it was proposed or edited."""
        return self.verdict in ("approve", "edit")

    @classmethod
    def of(cls, key: str, sent: Mapping[str, Any]) -> Answer:
        """Return the answer of a response; members that this version does not know are ignored."""
        names = (
            "verdict", "input", "arguments", "changed", "message", "decided_by", "decided_at", "decision", "cause",
            "permit", "signal",
        )  # fmt: skip
        values = {name: sent.get(name) for name in names} | {"changed": sent.get("changed") or []}
        return cls(key=key, **values, attachments=[Attachment.of(file) for file in sent.get("attachments") or []])


class Proposal(TypedDict, total=False):
    """The exact call that people decide about."""

    name: Required[str]
    arguments: Required[dict[str, Any]]
    schema: Any


class Question(TypedDict, total=False):
    """What is asked of people, or waited for: the members of an interrupt without its key (docs/api.md)."""

    reason: Required[str]
    title: Required[str]
    kind: Literal["approval", "input", "event", "timer"]
    queue: str
    message: str
    proposal: Proposal
    input_schema: Any
    verdicts: list[str]
    assignees: list[str]
    deadline: str
    deadline_in: str
    on_expiry: dict[str, Any]
    evidence: list[dict[str, Any]]
    facts: list[dict[str, Any]]
    risk: Literal["high", "medium", "low"]
    priority: int
    quorum: int
    external_id: str
    correlation: str
    metadata: dict[str, Any]


class Request(Question):
    """One request, with your key of it: its answer comes back under this key."""

    key: str


class Compensation(TypedDict, total=False):
    """The call that compensates an effect, and the ends of the run after which it does."""

    name: Required[str]
    arguments: Required[Any]
    on: list[Literal["cancel", "expire", "fail", "reject"]]


Repeat = Literal["never", "by_key", "harmless"]
InFlight = Literal["await", "cancel", "abandon"]

#: Format of the checkpoints of this client: the user's state, and the results of steps before them.
STATE_FORMAT = "reviewqueue-client/1"


def pack_state(state: Any, steps: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a checkpoint of this client stores."""
    return {"state": state, "steps": dict(steps)}


def unpack_state(checkpoint: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return the user's state and the recorded steps; the state of another program's checkpoint is returned whole."""
    state = checkpoint.get("state")
    if checkpoint.get("format") == STATE_FORMAT and isinstance(state, dict):
        return state.get("state"), dict(state.get("steps") or {})
    return state, {}
