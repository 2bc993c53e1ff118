"""Effects to test with: plain functions with overrides, through the ledger's own verbs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib.auth.models import Group, User

from ledger import effects, reconciliation
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
    words: dict[str, Any] = {
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
    return effects.intend(**{"owner": a_group(), **words, **overrides})


def report(status: str = "applied", **overrides: Any) -> effects.Reported:
    words: dict[str, Any] = {
        "scope": RUN,
        "key": KEY,
        "attempt": 1,
        "status": status,
        "receipt": {"order": "PO-2231"} if status == "applied" else None,
        "error": "" if status == "applied" else "the receiver said nothing",
        "retryable": False,
        "by": "agent:purchasing",
        "now": LATER,
    }
    return effects.report(**{**words, **overrides})


def settle(effect: Effect, outcome: str = "applied", **overrides: Any) -> Effect:
    words: dict[str, Any] = {"reason": "asked the supplier", "evidence": "mail of 1 December", "now": LATER}
    return reconciliation.settle(
        **{"effect_id": effect.pk, "outcome": outcome, "person": a_person(), **words, **overrides}
    )


def order(effect: Effect, **overrides: Any) -> Any:
    words: dict[str, Any] = {"reason": "the supplier lost it", "now": LATER}
    return reconciliation.order_again(**{"effect_id": effect.pk, "person": a_person(), **words, **overrides})


def an_effect(status: str = "intended", *, retryable: bool = False, repeat: str = "never", **overrides: Any) -> Effect:
    """An effect that got where it is by the verbs. ``compensated`` has no verb yet, so it is written as a row."""
    effect: Effect = intend(repeat=repeat, **overrides).effect
    scope = {"scope": effect.scope, "key": effect.key}
    if status == "unknown":
        effects.doubt_effects(scope=effect.scope, fence=effect.fence, now=NOON, by="system:lease_end")
    elif status in {"applied", "failed"}:
        report(status, retryable=retryable, now=NOON, **scope)
    elif status == "compensated":
        report("applied", now=NOON, **scope)
        Effect.objects.filter(pk=effect.pk).update(status=EffectStatus.COMPENSATED)
    effect.refresh_from_db()
    return effect
