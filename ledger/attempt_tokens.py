"""Attempt tokens: the worker of one attempt reports its outcome with this token, even after its lease ended.

The token is an HMAC over run, key and attempt. It is never stored, and a repeated call returns the same token.
"""

from __future__ import annotations

from ledger import tokens


def make_attempt_token(scope: str, key: str, attempt: int) -> str:
    return tokens.make_token("att", attempt, f"{scope}:{key}")


def read_attempt_token(token: str, scope: str, key: str) -> int | None:
    """Return the attempt that ``token`` names, or None if it is not a token of this effect."""
    return tokens.read_token("att", token, f"{scope}:{key}")
