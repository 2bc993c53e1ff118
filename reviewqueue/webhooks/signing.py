"""Signing secrets of endpoints, and signatures (Standard Webhooks 1.0).

A signing secret cannot be hashed. It is encrypted with a key derived from SECRET_KEY, so that a copy of the database alone
can sign nothing. SECRET_KEY_FALLBACKS still decrypt. The plain secret is shown once, in the response that created it.
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
    """The secret was encrypted under a SECRET_KEY that is no longer configured."""


def new_secret() -> str:
    """Return a new secret: ``whsec_`` and 32 random bytes in base64."""
    return PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def seal(secret: str) -> str:
    """Encrypt a secret for storage."""
    return _keys().encrypt(secret.encode()).decode()


def unseal(sealed: str) -> str:
    """Decrypt a stored secret. Raises ``SecretUnreadable``."""
    try:
        return _keys().decrypt(sealed.encode()).decode()
    except InvalidToken:
        raise SecretUnreadable from None


def signed_headers(*, message_id: str, body: bytes, at: datetime, sealed: list[str]) -> list[tuple[str, str]]:
    """Return the three headers of Standard Webhooks 1.0 for one attempt at ``at``.

    One signature per secret, newest first: during a rotation the receiver can know either.
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
    # The prefix separates this key from every other key derived from SECRET_KEY.
    derived = hashlib.sha256(b"reviewqueue.webhooks.signing:" + secret_key.encode()).digest()
    return Fernet(base64.urlsafe_b64encode(derived))
