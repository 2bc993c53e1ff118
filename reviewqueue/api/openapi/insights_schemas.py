"""The schemas of the measures' replies (`GET insights`). Called by `answers`."""

from __future__ import annotations

from reviewqueue.api.openapi.schema_helpers import (
    DAY,
    MOMENT,
    OBJECT,
    TEXT,
    WHOLE,
    Schema,
    many,
    or_null,
    ref,
    shape,
)

_LENGTHS = {"number": WHOLE} | dict.fromkeys(
    ["p10_seconds", "p50_seconds", "p90_seconds", "longest_seconds"], or_null(WHOLE)
)
_SPARED = {"steps_kept": WHOLE, "steps_redone": WHOLE, "effects_skipped": WHOLE}
_SHARE = dict.fromkeys(["decided", "high_risk", "revoked", "claimed_now"], WHOLE)
_SHAPES: dict[str, dict[str, Schema]] = {
    "Lengths": _LENGTHS,
    "AgeBand": {"age": TEXT, "waits": WHOLE, "ending_soon": WHOLE},
    "QueueLengths": {"queue": TEXT} | _LENGTHS,
    "RiskLengths": {"risk": TEXT} | _LENGTHS,
    "Waiting": _LENGTHS | {"by_age": many(ref("AgeBand")), "by_queue": many(ref("QueueLengths"))},
    "Ended": {"closed": WHOLE, "by_status": OBJECT, "expired_by_default": WHOLE, "expired_after_escalation": WHOLE},
    "Deciding": _LENGTHS | {"before": ref("Lengths"), "by_risk": many(ref("RiskLengths"))},
    "RefusedBy": {"code": TEXT, "status": TEXT, "refused": WHOLE},
    "Refused": {"submitted": WHOLE, "refused": WHOLE, "by_code": many(ref("RefusedBy"))},
    "ResumedPart": {"begins": DAY, "runs": WHOLE, "by_status": OBJECT},
    "Resumed": {"runs": WHOLE, "by_status": OBJECT, "parts": many(ref("ResumedPart"))},
    "SparedPart": {"begins": DAY} | _SPARED,
    "Spared": _SPARED | {"effects_unknown": WHOLE, "effects_repeated": WHOLE, "parts": many(ref("SparedPart"))},
    "Share": {"person": TEXT} | _SHARE | {"median_seconds": or_null(WHOLE)},
    "Insights": {
        "counted_at": MOMENT,
        "since": MOMENT,
        "days": WHOLE,
        "waiting": ref("Waiting"),
        "ended": ref("Ended"),
        "deciding": ref("Deciding"),
        "refused": ref("Refused"),
        "resumed": ref("Resumed"),
        "spared": ref("Spared"),
        "load": or_null(many(ref("Share"))),
    },
}

MEASURES: dict[str, Schema] = {name: shape(name, members) for name, members in _SHAPES.items()}
