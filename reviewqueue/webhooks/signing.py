"""Secrets of endpoints and the signatures made with them (Standard Webhooks 1.0).

A secret has to sign, so it is kept sealed, not hashed: under a key derived from SECRET_KEY, so that a copy of the database
alone signs nothing. Retired keys (SECRET_KEY_FALLBACKS) still open. Called by ``endpoints`` and ``sending``; the open
secret never leaves them but once, in the reply that made it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from datetime import datetime

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings

PREFIX = "whsec_"
SECRET_BYTES = 32


class SecretUnreadable(Exception):
    """The secret was sealed under a SECRET_KEY that is not here any more; rotate it."""


def new_secret() -> str:
    """Return a new secret: ``whsec_`` and 32 random bytes in base64."""
    return PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def seal(secret: str) -> str:
    """Return the secret as it is kept."""
    return _keys().encrypt(secret.encode()).decode()


def unseal(sealed: str) -> str:
    """Return the secret as it signs. Raises ``SecretUnreadable``."""
    try:
        return _keys().decrypt(sealed.encode()).decode()
    except InvalidToken:
        raise SecretUnreadable from None


def signed_headers(*, message_id: str, body: bytes, at: datetime, sealed: list[str]) -> list[tuple[str, str]]:
    """Return the three headers of Standard Webhooks 1.0 for one attempt at ``at``.

    One signature for each secret, newest first: while a rotation lasts, the receiver may know either.
    """
    timestamp = int(at.timestamp())
    signed = f"{message_id}.{timestamp}.".encode() + body
    signatures = [_signature(unseal(secret), signed) for secret in sealed]
    return [
        ("webhook-id", message_id),
        ("webhook-timestamp", str(timestamp)),
        ("webhook-signature", " ".join(f"v1,{signature}" for signature in signatures)),
    ]


def _signature(secret: str, signed: bytes) -> str:
    key = base64.b64decode(secret.removeprefix(PREFIX))
    return base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


def _keys() -> MultiFernet:
    return MultiFernet([_key(key) for key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)])


def _key(secret_key: str) -> Fernet:
    # Of its own purpose: what is sealed here must not open with any other key that is made from SECRET_KEY.
    derived = hashlib.sha256(b"reviewqueue.webhooks.signing:" + secret_key.encode()).digest()
    return Fernet(base64.urlsafe_b64encode(derived))
