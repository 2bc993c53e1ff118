"""The token by which the worker of one try reports its outcome.

An HMAC over run, key and attempt: never stored, the same on a repeated call, good whatever became of the lease. Minted by
``runs.use_cases.begin_effect`` for whoever is told to perform, and read there when the outcome comes.
"""

from __future__ import annotations

from ledger import tokens


def attempt_token(scope: str, key: str, attempt: int) -> str:
    """Return the token by which the worker that began ``attempt`` reports its outcome, whatever became of its lease."""
    return tokens.mint("att", attempt, f"{scope}:{key}")


def attempt_of(token: str, scope: str, key: str) -> int | None:
    """Return the attempt that ``token`` stands for; None when it is not one of this effect."""
    return tokens.read("att", token, f"{scope}:{key}")
