"""What an effect's outcome can be, and every move between outcomes (MOVES 3.5).

``effects.py`` alone writes ``Effect.status``; a test walks every pair of state and verb against this table.
"""

from __future__ import annotations

from django.db import models


class EffectStatus(models.TextChoices):
    """INTENDED and UNKNOWN are open; UNKNOWN has an owner and is never retried blindly."""

    INTENDED = "intended"
    UNKNOWN = "unknown"
    APPLIED = "applied"
    FAILED = "failed"
    COMPENSATED = "compensated"


class On(models.TextChoices):
    """The ends of a run after which an effect's compensation takes it back; REJECT: a person's no ended it."""

    CANCEL = "cancel"
    EXPIRE = "expire"
    FAIL = "fail"
    REJECT = "reject"


class Repeat(models.TextChoices):
    """What the receiver does with the same call twice: unknown (never repeat), drops it by its key, does no harm."""

    NEVER = "never"
    BY_KEY = "by_key"
    HARMLESS = "harmless"


class InFlight(models.TextChoices):
    """What becomes of an effect under way when its run stops: AWAIT its outcome, CANCEL it outside, or ABANDON it.

    CANCEL: its worker is asked to, and if it was applied all the same it is taken back. ABANDON: unknown at once; it holds
    nobody up, and stays with its owner.
    """

    AWAIT = "await"
    CANCEL = "cancel"
    ABANDON = "abandon"


OPEN = frozenset({EffectStatus.INTENDED, EffectStatus.UNKNOWN})
SETTLED = frozenset({EffectStatus.APPLIED, EffectStatus.FAILED, EffectStatus.COMPENSATED})

#: verb -> (from, to). ``begin`` also makes the row; ``begin`` out of a settled state needs a retryable failure or an order.
MOVES: dict[str, tuple[frozenset[EffectStatus], frozenset[EffectStatus]]] = {
    "begin": (
        frozenset({EffectStatus.INTENDED, EffectStatus.UNKNOWN, EffectStatus.FAILED, EffectStatus.COMPENSATED}),
        frozenset({EffectStatus.INTENDED}),
    ),
    "report": (OPEN, frozenset({EffectStatus.APPLIED, EffectStatus.FAILED, EffectStatus.UNKNOWN})),
    "doubt": (frozenset({EffectStatus.INTENDED}), frozenset({EffectStatus.UNKNOWN})),
    "compensate": (frozenset({EffectStatus.APPLIED}), frozenset({EffectStatus.COMPENSATED})),
    "settle": (frozenset({EffectStatus.UNKNOWN}), frozenset({EffectStatus.APPLIED, EffectStatus.FAILED})),
}
