"""Public ids: opaque texts with the kind in front (``run_4k7m...``), safe in addresses and in mail.

128 random bits in lower-case base 32 without the letters that look like digits; ids say nothing about order or number.
"""

from __future__ import annotations

import hashlib
import secrets

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
LENGTH = 26


def new_id(kind: str) -> str:
    """Return a new id: ``kind`` (a short prefix such as ``run``), an underscore and 26 characters."""
    return _spelt(kind, secrets.randbits(5 * LENGTH))


def derived_id(kind: str, *of: str) -> str:
    """Return the id that always follows from these texts: what is made a second time from the same is known by it."""
    digest = hashlib.sha256("\n".join(of).encode()).digest()
    return _spelt(kind, int.from_bytes(digest, "big"))


def _spelt(kind: str, bits: int) -> str:
    return kind + "_" + "".join(ALPHABET[(bits >> (5 * place)) & 31] for place in range(LENGTH))
