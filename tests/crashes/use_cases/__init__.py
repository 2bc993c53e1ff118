"""Every use case of the product with a scene for the kill tests: ``VERBS`` is the table, ``verb`` adds an entry.

An entry is a function that prepares a scene and returns the call. Modules here group the scenes by subject;
``tests.crashes.test_every_use_case`` runs them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Act = Callable[[], object]


@dataclass(frozen=True, kw_only=True)
class Verb:
    """One use case in one scene.

    ``says``: the code of the refusal that it records and raises. ``then``: the result of the repeated call.
    ``another``: the call has no key, so a repeated call is a second one. ``swept``: what a kill leaves between two of
    its transactions is done by a sweep.
    """

    use_case: str
    words: str
    scene: Callable[[], Act]
    says: str = ""
    then: str = ""
    another: bool = False
    swept: bool = False


VERBS: list[Verb] = []


def verb(use_case: str, **told: str | bool) -> Callable[[Callable[[], Act]], Callable[[], Act]]:
    """Add a scene to the table. ``use_case`` is the path of the function: ``runs.use_cases.start_run.start_run``."""

    def written(scene: Callable[[], Act]) -> Callable[[], Act]:
        words = scene.__name__.replace("_", " ")
        VERBS.append(Verb(use_case=use_case, words=words, scene=scene, **told))  # type: ignore[arg-type]
        return scene

    return written
