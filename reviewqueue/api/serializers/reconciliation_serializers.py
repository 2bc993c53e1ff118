"""Request serializers of reconciliation: resolutions of outcomes, holds and facts."""

from __future__ import annotations

from typing import Any

from ledger.states import EffectStatus
from reviewqueue.api.serializers.fields import (
    ChoiceField,
    IntegerField,
    RequestSerializer,
    TextField,
    invalid_at,
)
from runs.states import HoldKind

APPLIED, FAILED = EffectStatus.APPLIED.value, EffectStatus.FAILED.value
REPEAT, RECORDED_OUTCOME = "repeat", "recorded_outcome"
RETRY, KEEP_EFFECT = "retry", "keep_effect"


class ResolveEffectRequest(RequestSerializer):
    """What happened outside, as an owner found it."""

    resolution = ChoiceField(
        "`applied`: it happened. `failed`: it did not happen. `repeat`: perform it again. `recorded_outcome`: the "
        "recorded outcome is right.",
        APPLIED,
        FAILED,
        REPEAT,
        RECORDED_OUTCOME,
    )
    attempt = IntegerField("Number of the attempt that you reviewed; a newer one refuses the call.", min_value=1)
    reason = TextField("How you know the outcome, for people.", max_length=2_000, min_length=1)
    evidence = TextField("Evidence, with `applied` and `failed`.", max_length=10_000, default="")

    def validate(self, sent: dict[str, Any]) -> dict[str, Any]:
        """Refuse evidence of no outcome."""
        if sent["evidence"] and sent["resolution"] not in {APPLIED, FAILED}:
            raise invalid_at(f"is only for the resolutions {APPLIED} and {FAILED}", "evidence")
        return sent


class LiftHoldRequest(RequestSerializer):
    """Which hold of a run is lifted, and why the run can continue."""

    kind = ChoiceField("Kind of the hold, as `GET runs/{id}` lists it.", *HoldKind.values)
    subject = TextField("Subject of the hold, as `GET runs/{id}` lists it.", max_length=300, default="")
    resolution = ChoiceField(
        "`retry`: workers can try again. `keep_effect`, with `undo_failed` only: the effect stays as it is.",
        RETRY,
        KEEP_EFFECT,
        default=RETRY,
    )
    reason = TextField("Why the run can continue, for people.", max_length=300, min_length=1)


class WaiveFactRequest(RequestSerializer):
    """The fact that a run continues without."""

    name = TextField("Name of the fact.", max_length=200, min_length=1)
    reason = TextField("Why the run can continue without the fact, for people.", max_length=300, min_length=1)
