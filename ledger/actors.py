"""Who did it, in the one form that the ledger, the timeline and webhooks keep: ``person:<address>`` or ``agent:<slug>``.

What the product does by itself is ``system:<part>``, a constant beside the part that does it.
"""

from __future__ import annotations

from django.contrib.auth.base_user import AbstractBaseUser


def by_person(person: AbstractBaseUser) -> str:
    """Return ``person:ana@example.org``: the name that the person signs in with."""
    return f"person:{person.get_username()}"


def by_agent(slug: str) -> str:
    """Return ``agent:purchasing``."""
    return f"agent:{slug}"


def in_words(actor: str) -> str:
    """Return an actor as a sentence names it: a person by their address, an agent by its slug, our own parts as one."""
    kind, _, name = actor.partition(":")
    told = {"person": name, "agent": f"the agent {name}", "system": "this server", "parent": "its parent run"}
    return told.get(kind, actor) if name else actor
