"""What can go wrong: refusals of the server, lost connections, effects that failed, and runs that ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reviewqueue_client.retries import RETRYABLE_STATUSES


class ReviewQueueError(Exception):
    """The base of all errors of this package."""


class Refused(ReviewQueueError):
    """A problem (RFC 9457) from the server. ``code`` is for programs, the text is for people."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        super().__init__(str(problem.get("detail") or problem.get("title") or f"HTTP status {status}"))
        self.status = status
        self.problem = dict(problem)
        self.code = str(problem.get("code", ""))
        self.retryable = bool(problem.get("retryable", False))
        self.errors: list[dict[str, Any]] = list(problem.get("errors") or [])

    def __reduce__(self) -> tuple[type[Refused], tuple[int, dict[str, Any]]]:
        return type(self), (self.status, self.problem)

    @property
    def is_final(self) -> bool:
        """Return whether the same request would be refused again."""
        return not self.retryable


class Unreachable(ReviewQueueError):
    """The server gave no usable answer, also after the retries. ``status``: of a proxy's response, 0 without one."""

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status

    def __reduce__(self) -> tuple[type[Unreachable], tuple[str, int]]:
        return type(self), (str(self), self.status)

    @property
    def is_final(self) -> bool:
        """Return whether the same request would be refused again."""
        return 400 <= self.status < 500 and self.status not in RETRYABLE_STATUSES


class RunEnded(ReviewQueueError):
    """The run ended without a result: it failed, was cancelled, or expired. ``outcome`` is its error, if it has one."""

    def __init__(self, run: str, status: str, outcome: Any = None) -> None:
        super().__init__(f"The run {run} has ended: {status}.")
        self.run, self.status, self.outcome = run, status, outcome

    def __reduce__(self) -> tuple[type[RunEnded], tuple[str, str, Any]]:
        return type(self), (self.run, self.status, self.outcome)


class EffectFailed(ReviewQueueError):
    """The effect is recorded as failed and is not tried again."""

    def __init__(self, key: str, error: str | None) -> None:
        super().__init__(f"The effect {key} failed: {error or 'no error was recorded'}")
        self.key, self.error = key, error

    def __reduce__(self) -> tuple[type[EffectFailed], tuple[str, str | None]]:
        return type(self), (self.key, self.error)


class DigestMismatch(ReviewQueueError):
    """The bytes that arrived are not those that the digest names. ``arrived``: their digest."""

    def __init__(self, digest: str, arrived: str) -> None:
        super().__init__(f"The bytes have the digest {arrived}; the answer names {digest}.")
        self.digest, self.arrived = digest, arrived

    def __reduce__(self) -> tuple[type[DigestMismatch], tuple[str, str]]:
        return type(self), (self.digest, self.arrived)


class NotPerformed(Exception):
    """Raise this in the function of an effect if the call surely did not happen.

    The effect is then recorded as failed; with ``retryable`` the next attempt begins it again. Any other exception means
    that the outcome is unknown.
    """

    def __init__(self, error: str, *, retryable: bool = True) -> None:
        super().__init__(error)
        self.retryable = retryable


class Stopped(BaseException):
    """Ends the function that works on a run, because this process must not continue it now. Do not catch it.

    ``reason``: suspended, pause, cancel, shutdown, or the code of a refusal such as lease_lost.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
