"""Attempt tokens: the worker of one attempt reports its outcome with this token, even after its lease ended.

The token is an HMAC over run, key and attempt. It is never stored, and a repeated call returns the same token.
"""

from __future__ import annotations

from ledger import tokens


def attempt_token(scope: str, key: str, attempt: int) -> str:
    return tokens.mint("att", attempt, f"{scope}:{key}")


def attempt_of(token: str, scope: str, key: str) -> int | None:
    """Return the attempt that ``token`` names, or None if it is not a token of this effect."""
    return tokens.read("att", token, f"{scope}:{key}")
