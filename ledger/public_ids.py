"""Public ids: opaque texts with a prefix for the kind (``run_4k7m...``), safe in URLs and mail.

128 random bits in lower-case base 32 without characters that look like digits. Ids show neither order nor number.
"""

from __future__ import annotations

import hashlib
import secrets

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
LENGTH = 26
#: The character of each byte, by its lowest five bits.
_CHARACTERS = bytes(ord(ALPHABET[byte & 31]) for byte in range(256))


def new_id(kind: str) -> str:
    """Return a new id: ``kind`` (such as ``run``), an underscore and 26 characters."""
    return f"{kind}_{secrets.token_bytes(LENGTH).translate(_CHARACTERS).decode()}"


def derive_id(kind: str, *of: str) -> str:
    """Return the id derived from these texts, so that the same texts give the same id."""
    digest = hashlib.sha256("\n".join(of).encode()).digest()
    return _encode(kind, int.from_bytes(digest, "big"))


def _encode(kind: str, bits: int) -> str:
    return kind + "_" + "".join(ALPHABET[(bits >> (5 * place)) & 31] for place in range(LENGTH))
