"""Actors as text, the form that the ledger, the timeline and webhooks store: ``person:<address>`` or ``agent:<slug>``.

The product itself is ``system:<part>``, a constant in the module of that part.
"""

from __future__ import annotations

from django.contrib.auth.base_user import AbstractBaseUser


def person_actor(person: AbstractBaseUser) -> str:
    """Return ``person:ana@example.org``, by the name that the person signs in with."""
    return f"person:{person.get_username()}"


def agent_actor(slug: str) -> str:
    """Return ``agent:purchasing``."""
    return f"agent:{slug}"


def actor_label(actor: str) -> str:
    """Return an actor for use in a sentence, such as ``ana@example.org``, ``the agent purchasing`` or ``this server``."""
    kind, _, name = actor.partition(":")
    labels = {"person": name, "agent": f"the agent {name}", "system": "this server", "parent": "its parent run"}
    return labels.get(kind, actor) if name else actor
