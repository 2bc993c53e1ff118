"""The status of an effect and its transitions. ``effects.py`` is the only module that writes ``Effect.status``."""

from __future__ import annotations

from django.db import models


class EffectStatus(models.TextChoices):
    """INTENDED and UNKNOWN are open; UNKNOWN has an owner and is never retried blindly."""

    INTENDED = "intended"
    UNKNOWN = "unknown"
    APPLIED = "applied"
    FAILED = "failed"
    COMPENSATED = "compensated"


class CompensateOn(models.TextChoices):
    """The ends of a run that trigger a compensation. REJECT: a reviewer's rejection ended the run."""

    CANCEL = "cancel"
    EXPIRE = "expire"
    FAIL = "fail"
    REJECT = "reject"


class Repeat(models.TextChoices):
    """Whether a call can be repeated: never, because the receiver drops repeats by key, or because it is harmless."""

    NEVER = "never"
    BY_KEY = "by_key"
    HARMLESS = "harmless"


class InFlight(models.TextChoices):
    """What happens to an effect in flight when its run stops.

    AWAIT: the continuation waits for the outcome. CANCEL: the worker makes the cancel call; if the effect was applied
    anyway, it is compensated. ABANDON: it becomes unknown at once and is left to its owner, without a hold.
    """

    AWAIT = "await"
    CANCEL = "cancel"
    ABANDON = "abandon"


OPEN_EFFECTS = frozenset({EffectStatus.INTENDED, EffectStatus.UNKNOWN})
SETTLED_EFFECTS = frozenset({EffectStatus.APPLIED, EffectStatus.FAILED, EffectStatus.COMPENSATED})

#: verb -> (from, to). ``begin`` also creates the row; from a settled status it needs a retryable failure or an order.
EFFECT_TRANSITIONS: dict[str, tuple[frozenset[EffectStatus], frozenset[EffectStatus]]] = {
    "begin": (
        frozenset({EffectStatus.INTENDED, EffectStatus.UNKNOWN, EffectStatus.FAILED, EffectStatus.COMPENSATED}),
        frozenset({EffectStatus.INTENDED}),
    ),
    "report": (OPEN_EFFECTS, frozenset({EffectStatus.APPLIED, EffectStatus.FAILED, EffectStatus.UNKNOWN})),
    "mark unknown": (frozenset({EffectStatus.INTENDED}), frozenset({EffectStatus.UNKNOWN})),
    "compensate": (frozenset({EffectStatus.APPLIED}), frozenset({EffectStatus.COMPENSATED})),
    "resolve": (frozenset({EffectStatus.UNKNOWN}), frozenset({EffectStatus.APPLIED, EffectStatus.FAILED})),
}
