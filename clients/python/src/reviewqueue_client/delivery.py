"""What became of a request whose answer another system waits for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from reviewqueue_client.errors import Refused, Unreachable
from reviewqueue_client.values import Answer

#: Statuses of a run that can have no other answer.
ENDED = frozenset({"completed", "failed", "cancelled", "expired"})
#: Statuses of refusals that are about the message itself. A key that is not valid, for example, refuses every message.
ABOUT_THE_MESSAGE = frozenset({409, 413, 422})


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of a request: its answer, or the end of its run without one.

    ``status``: `answered`; `expired`, also if the policy resumes the run at the deadline; `cancelled` or `failed`. ``id``
    is the same for every delivery of this outcome, so that a receiver can drop a repeated one. ``arguments``: of the
    approved call, as proposed or edited.
    """

    id: str
    key: str
    status: str
    answer: Answer | None
    arguments: dict[str, Any] | None = None

    @property
    def approved(self) -> bool:
        """Return whether the proposed call may be performed, as it was proposed or edited."""
        return self.answer is not None and self.answer.approved

    @property
    def message(self) -> str | None:
        """Return the message of the reviewer."""
        return None if self.answer is None else self.answer.message

    def as_json(self) -> dict[str, Any]:
        """Return the outcome as a JSON value, for ``of``."""
        return asdict(self)

    @classmethod
    def of(cls, sent: Mapping[str, Any]) -> Outcome:
        """Return the outcome that ``as_json`` made a value of."""
        given = sent["answer"]
        answer = None if given is None else Answer.of(given["key"], given)
        names = {name: sent[name] for name in ("id", "key", "status", "arguments")}
        return cls(**names, answer=answer)

    @classmethod
    def of_answer(cls, run: Mapping[str, Any], answer: Answer, *, arguments: dict[str, Any] | None) -> Outcome:
        """Return the outcome of an answered request."""
        status = "answered" if answer.verdict is not None or answer.signal is not None else "expired"
        decided = answer.decision or answer.decided_at
        id_ = f"{run['id']}:{run['epoch']}:{decided}"
        return cls(id=id_, key=answer.key, status=status, answer=answer, arguments=arguments)

    @classmethod
    def of_ended(cls, run: Mapping[str, Any]) -> Outcome:
        """Return the outcome of a run that has ended: the recorded one, or its end without an answer."""
        if run["status"] == "completed":
            return cls.of(run["outcome"]["result"])
        status = str(run["status"])
        return cls(id=f"{run['id']}:{run['epoch']}:{status}", key=run["key"], status=status, answer=None)


def is_refused_for_good(error: Refused | Unreachable) -> bool:
    """Return whether a message with which this happened can never be passed on, and belongs to the dead letters."""
    return error.is_final and error.status in ABOUT_THE_MESSAGE


def read_cursor(path: Path) -> int:
    """Return the place in the event feed that the file keeps; 0 without a file."""
    return int(path.read_text()) if path.exists() else 0


def write_cursor(path: Path, place: int) -> None:
    """Replace the file."""
    temporary = path.with_name(f"{path.name}.new")
    temporary.write_text(str(place))
    temporary.replace(path)
