"""Builders of effects: plain functions with overrides that call the ledger."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib.auth.models import Group, User

from ledger import effects, in_flight, reconciliation
from ledger.models import Effect
from ledger.states import EffectStatus

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)
LATER = NOON + timedelta(hours=1)
RUN = "run_4k7m"
KEY = "order:PR-4711"


def a_group(name: str = "purchasing-owners") -> Group:
    return Group.objects.get_or_create(name=name)[0]


def a_person(address: str = "ana@example.org", *groups: str) -> User:
    person, _ = User.objects.get_or_create(username=address, email=address)
    person.groups.add(*(a_group(name) for name in groups))
    return person


def intend(**overrides: Any) -> Any:
    fields: dict[str, Any] = {
        "scope": RUN,
        "epoch": 1,
        "key": KEY,
        "fence": 1,
        "name": "issue_purchase_order",
        "arguments": {"supplier": "S-17", "amount": "184000.00"},
        "repeat": "never",
        "permit_ref": None,
        "request_key": "",
        "now": NOON,
    }
    return effects.intend_effect(**{"owner_id": a_group().pk, **fields, **overrides})


def report(status: str = "applied", **overrides: Any) -> effects.ReportResult:
    stated: dict[str, Any] = {
        "status": status,
        "receipt": {"order": "PO-2231"} if status == "applied" else None,
        "error": "" if status == "applied" else "the receiver did not answer",
        "retryable": False,
    }
    stated |= {name: overrides.pop(name) for name in list(overrides) if name in stated}
    fields: dict[str, Any] = {"scope": RUN, "key": KEY, "attempt": 1, "by": "agent:purchasing", "now": LATER}
    return effects.report_outcome(**{**fields, **overrides}, outcome=effects.EffectOutcome(**stated))


def settle(effect: Effect, outcome: str = "applied", **overrides: Any) -> Effect:
    fields: dict[str, Any] = {"reason": "asked the supplier", "evidence": "mail of 1 December", "now": LATER}
    return reconciliation.resolve_by_person(
        **{"effect_id": effect.pk, "outcome": outcome, "person": a_person(), **fields, **overrides}
    )


def order(effect: Effect, **overrides: Any) -> Any:
    fields: dict[str, Any] = {"reason": "the supplier lost it", "now": LATER}
    return reconciliation.order_new_attempt(**{"effect_id": effect.pk, "person": a_person(), **fields, **overrides})


def an_effect(status: str = "intended", *, retryable: bool = False, repeat: str = "never", **overrides: Any) -> Effect:
    """Return an effect that reached its status by calls of the ledger, or by an UPDATE for ``compensated``."""
    effect: Effect = intend(repeat=repeat, **overrides).effect
    scope = {"scope": effect.scope, "key": effect.key}
    if status == "unknown":
        in_flight.mark_lost_unknown(scope=effect.scope, fence=effect.fence, now=NOON, by="system:lease_end")
    elif status in {"applied", "failed"}:
        report(status, retryable=retryable, now=NOON, **scope)
    elif status == "compensated":
        report("applied", now=NOON, **scope)
        Effect.objects.filter(pk=effect.pk).update(status=EffectStatus.COMPENSATED)
    effect.refresh_from_db()
    return effect
