"""Names of people."""

from __future__ import annotations

from django.contrib.auth.models import AbstractUser


def person_name(person: AbstractUser) -> str:
    """Return the full name, or else the address."""
    return str(person.get_full_name() or person.get_username())
