"""Refusals: the errors that a caller sees, each a class with a ``code`` of the API contract.

The docstring of a class is the sentence for people. HTTP statuses are in ``reviewqueue/api/problems.py`` only. Inside a
transaction, a refusal that leaves a record is returned instead of raised, so that the use case commits the record
first.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True)
class Problem:
    """One error in a request: a JSON Pointer (RFC 6901) into its body, and a message that follows the pointer."""

    pointer: str
    message: str


class Refusal(Exception):
    """The request was refused."""

    code: ClassVar[str] = ""
    retryable: ClassVar[bool] = False

    def __init__(self, detail: str = "", *, errors: list[Problem] | None = None, **extra: Any) -> None:
        """``detail`` replaces the class's sentence; ``extra`` (JSON values) become members of the problem."""
        self.detail = detail or self.sentence()
        self.errors = errors or []
        self.extra = extra
        super().__init__(self.detail)

    @classmethod
    def sentence(cls) -> str:
        """Return the first paragraph of the docstring on one line."""
        return " ".join((inspect.getdoc(cls) or "").split("\n\n")[0].split())


class PayloadInvalid(Refusal):
    """The request does not have the expected shape."""

    code = "payload_invalid"

    @classmethod
    def at(cls, pointer: str, message: str) -> PayloadInvalid:
        """Return the refusal for one member of the body."""
        return cls(f"{pointer or 'The body'} {message}.", errors=[Problem(pointer, message)])


class Busy(Refusal):
    """The database is busy. Nothing was changed. Send the request again."""

    code = "busy"
    retryable = True


class KeyReused(Refusal):
    """This key was used before for another request."""

    code = "key_reused"


class KeyInvalid(Refusal):
    """A key has 1 to 200 characters out of A-Z, a-z, 0-9, dot, underscore, colon and hyphen, and is not `.` or `..`."""

    code = "key_invalid"


class ConfusableName(Refusal):
    """This name can be confused with another one: it mixes scripts, has look-alike characters, or nearly equals a name
    that a rule or a call label uses.
    """

    code = "name_disguised"


class OutcomeUnknown(Refusal):
    """The outcome of this effect is not known. Its owner must resolve it before it can be performed again."""

    code = "in_doubt"


class WasCompensated(Refusal):
    """This effect was performed and then compensated. It is performed again only if a person orders it."""

    code = "was_compensated"


class AlreadyResolved(Refusal):
    """Another person resolved this outcome first."""

    code = "already_settled"


class NotFound(Refusal):
    """The object does not exist, or you do not have permission to see it."""

    code = "not_found"
