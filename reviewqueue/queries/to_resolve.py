"""What an owner must resolve: effects whose outcome is in question, and holds of runs. Read-only.

An owner sees those of their groups, an operator all. Every count reads an index of open rows, up to a limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from django.contrib.auth.models import AbstractUser
from django.db.models import Exists, OuterRef, QuerySet

from ledger.models import Effect
from ledger.states import EffectStatus
from reviewqueue import permissions
from runs.models import Hold
from runs.states import HoldKind

MAX_COUNTED = 1_000
#: Holds that are resolved at their effect.
_AT_THE_EFFECT = (HoldKind.UNKNOWN_EFFECT, HoldKind.CONTRADICTION)

M = TypeVar("M", Effect, Hold)


@dataclass(frozen=True, kw_only=True)
class ToResolve:
    """How many outcomes and holds a person must resolve, each up to ``MAX_COUNTED`` + 1."""

    effects: int
    holds: int

    @property
    def any(self) -> bool:
        return bool(self.effects or self.holds)

    @property
    def shown(self) -> str:
        """Return the sum as text, for the navigation."""
        return _shown(self.effects + self.holds)

    @property
    def shown_effects(self) -> str:
        return _shown(self.effects)

    @property
    def shown_holds(self) -> str:
        return _shown(self.holds)


def _shown(number: int) -> str:
    return f"{MAX_COUNTED}+" if number > MAX_COUNTED else str(number)


def count_to_resolve(person: AbstractUser) -> ToResolve:
    """Return the length of both lists; nothing for a person without access to reconciliation."""
    if not (person.is_active and person.is_staff):
        return ToResolve(effects=0, holds=0)
    effects, holds = (
        rows.select_related(None).order_by()[: MAX_COUNTED + 1].count()
        for rows in (questioned_effects(person), open_holds(person))
    )
    return ToResolve(effects=effects, holds=holds)


def questioned_effects(person: AbstractUser) -> QuerySet[Effect]:
    """Return the person's effects with an unknown or contradicted outcome, the oldest first; an operator has all."""
    contradictions = Hold.objects.filter(kind=HoldKind.CONTRADICTION, lifted_at=None)
    contradicted = Effect.objects.filter(
        Exists(contradictions.filter(run__public_id=OuterRef("scope"), subject=OuterRef("key"))),
        scope__in=contradictions.values("run__public_id"),
    )
    # Two statements with an index each: joined by OR, they would read every effect.
    unknown = _owned(Effect.objects.filter(status=EffectStatus.UNKNOWN), person).order_by().values("pk")
    in_question = unknown.union(_owned(contradicted, person).order_by().values("pk"))
    return Effect.objects.filter(pk__in=in_question).select_related("owner").order_by("changed_at", "pk")


def open_holds(person: AbstractUser) -> QuerySet[Hold]:
    """Return the person's open holds that are not resolved at an effect, the oldest first; an operator has all."""
    holds = Hold.objects.filter(lifted_at=None).exclude(kind__in=_AT_THE_EFFECT)
    return _owned(holds, person).select_related("run__agent", "owner").order_by("opened_at", "pk")


def _owned(rows: QuerySet[M], person: AbstractUser) -> QuerySet[M]:
    if permissions.is_operator(person):
        return rows
    return rows.filter(owner__in=list(person.groups.values_list("pk", flat=True)))
