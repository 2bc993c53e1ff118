"""Every use case of the product, set up to be killed: ``VERBS`` is the table, ``verb`` writes a line of it.

A line is a function that sets a scene and returns the call; its name says what the call does. Modules here hold the
scenes by subject; ``tests.crashes.test_every_use_case`` plays them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Act = Callable[[], object]


@dataclass(frozen=True, kw_only=True)
class Verb:
    """One use case in one scene.

    ``says``: the code of the refusal that it records and raises. ``then``: what the same call is told once it has been
    done. ``another``: it has no key, so the same call again is another one. ``swept``: what a kill left undone between two
    of its transactions is a sweep's to do.
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
    """Write a scene into the table. ``use_case`` is where the function stands: ``runs.use_cases.start_run.start_run``."""

    def written(scene: Callable[[], Act]) -> Callable[[], Act]:
        words = scene.__name__.replace("_", " ")
        VERBS.append(Verb(use_case=use_case, words=words, scene=scene, **told))  # type: ignore[arg-type]
        return scene

    return written
