"""Signed tokens for attempts (``att``) and leases (``lse``). They are never stored.

A token is a number in clear text and an HMAC over kind, number and subject, so a repeated call gets the same token.
Retired keys (``SECRET_KEY_FALLBACKS``) still verify; new tokens use the current key.
"""

from __future__ import annotations

import re

from django.conf import settings
from django.utils.crypto import constant_time_compare, salted_hmac

_TOKEN = re.compile(r"(?P<kind>[a-z]{3})_(?P<number>0|[1-9][0-9]{0,9})_(?P<mac>[0-9a-f]{64})")


def token_pattern(kind: str) -> str:
    """Return the regular expression of the tokens of a kind, also for the API's document."""
    return f"^{kind}_(?:0|[1-9][0-9]{{0,9}})_[0-9a-f]{{64}}$"


def make_token(kind: str, number: int, subject: str) -> str:
    """Return the token of ``number`` (an attempt, a fence) under ``subject``, such as ``att_1_9f2c...``."""
    return f"{kind}_{number}_{_mac(kind, number, subject, settings.SECRET_KEY)}"


def read_token(kind: str, token: str, subject: str) -> int | None:
    """Return the number in ``token``, or None if it is malformed, of another kind or subject, or not signed by us."""
    found = _TOKEN.fullmatch(token)
    if not found or found["kind"] != kind:
        return None
    number = int(found["number"])
    for key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS):
        if constant_time_compare(found["mac"], _mac(kind, number, subject, key)):
            return number
    return None


def _mac(kind: str, number: int, subject: str, key: str) -> str:
    # The kind is the salt and the number has no colon, so that no two triples have one text.
    return salted_hmac(f"ledger.tokens.{kind}", f"{number}:{subject}", secret=key, algorithm="sha256").hexdigest()
