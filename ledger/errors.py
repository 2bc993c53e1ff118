"""Refusals: what the product says no with.

A refusal is a class whose docstring is the sentence people read, with the ``code`` of the wire contract. No HTTP here:
statuses live in ``reviewqueue/api/problems.py`` alone. Inside a transaction a refusal that leaves a record is returned;
the use case commits and raises it afterwards, since raising it inside would take its own record back.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a request: a JSON Pointer (RFC 6901) into its body, and what is wrong there."""

    pointer: str
    message: str


class Refusal(Exception):
    """The request was refused."""

    code: ClassVar[str] = ""
    retryable: ClassVar[bool] = False

    def __init__(self, detail: str = "", *, errors: list[Problem] | None = None, **extra: Any) -> None:
        """``detail`` replaces the class's sentence; ``extra`` members are told beside it (JSON values)."""
        self.detail = detail or self.sentence()
        self.errors = errors or []
        self.extra = extra
        super().__init__(self.detail)

    @classmethod
    def sentence(cls) -> str:
        """Return the first paragraph of the docstring on one line: what people read."""
        return " ".join((inspect.getdoc(cls) or "").split("\n\n")[0].split())


class PayloadInvalid(Refusal):
    """The request does not have the expected shape."""

    code = "payload_invalid"

    @classmethod
    def at(cls, pointer: str, message: str) -> PayloadInvalid:
        """Return the refusal for one member of the body."""
        return cls(f"{pointer or 'The body'} {message}.", errors=[Problem(pointer, message)])


class Busy(Refusal):
    """The database is busy; nothing was changed. Try again in a moment."""

    code = "busy"
    retryable = True


class KeyReused(Refusal):
    """This key was used before for something else."""

    code = "key_reused"


class KeyInvalid(Refusal):
    """A key has 1 to 200 characters out of A-Z, a-z, 0-9, dot, underscore, colon and hyphen."""

    code = "key_invalid"


class NameDisguised(Refusal):
    """This name can be taken for another: it mixes alphabets, has look-alike letters, or is nearly a name that is set."""

    code = "name_disguised"


class InDoubt(Refusal):
    """It is not known whether this effect happened. Its owner settles that; until then it must not be done again."""

    code = "in_doubt"


class WasCompensated(Refusal):
    """This effect was done and taken back. A person may order it again; it is never repeated by itself."""

    code = "was_compensated"


class AlreadySettled(Refusal):
    """Somebody settled this outcome first."""

    code = "already_settled"


class NotFound(Refusal):
    """There is no such thing here, or it is not yours to see."""

    code = "not_found"
