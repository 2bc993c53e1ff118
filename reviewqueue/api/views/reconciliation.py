"""Reconciliation: owners and operators resolve unknown outcomes, lift holds and waive facts, as in the admin.

The use cases, their checks and their records are those of the reconciliation admin.
"""

from __future__ import annotations

from django.contrib.auth.models import User
from rest_framework.request import Request
from rest_framework.response import Response

from ledger.errors import NotFound, PayloadInvalid
from ledger.models import Effect
from reviewqueue import permissions
from reviewqueue.api.authentication import check_reconciler, person_of
from reviewqueue.api.base_view import RECONCILER, ApiView, Operation, check_key
from reviewqueue.api.responses.continuations import EffectResponse
from reviewqueue.api.responses.runs import RunControlResponse
from reviewqueue.api.serializers.reconciliation_serializers import (
    KEEP_EFFECT,
    RECORDED_OUTCOME,
    REPEAT,
    RETRY,
    LiftHoldRequest,
    ResolveEffectRequest,
    WaiveFactRequest,
)
from runs.models import Hold
from runs.states import HoldKind
from runs.use_cases import reconcile_facts, reconcile_outcomes

#: Kind of hold -> how it is lifted instead.
_LIFTED_ELSEWHERE = {
    HoldKind.UNKNOWN_EFFECT: "is lifted by the resolution of the effect: POST runs/{id}/effects/{key}/resolve",
    HoldKind.CONTRADICTION: "is lifted by the resolution of the effect: POST runs/{id}/effects/{key}/resolve",
    HoldKind.FACT_UNAVAILABLE: "is lifted by a waiver of the fact: POST runs/{id}/facts/waive",
}


class ResolveEffectView(ApiView):
    """The resolution of an effect by its owner."""

    @Operation(
        id="resolve_effect",
        summary="Resolve the outcome of an effect",
        description="`applied` or `failed`: what happened, for an unknown outcome. `repeat`: the next worker performs "
        "the call again; not for a run that you started. `recorded_outcome`: of two contradicting reports, the "
        "recorded outcome is right.",
        who=RECONCILER,
        request=ResolveEffectRequest,
        responses={200: EffectResponse},
        refusals=(
            "not_found",
            "key_invalid",
            "stale_version",
            "already_settled",
            "in_doubt",
            "run_finished",
            "run_cancelled",
        ),
    )
    def post(self, request: Request, run_id: str, key: str) -> Response:
        caller = person_of(request)
        check_key(key)
        sent = self.validated_body(request)
        person = check_reconciler(caller)
        effect = _find_effect(person, run_id, key)
        stated = {"effect_id": effect.pk, "person": person, "reason": sent["reason"], "attempt": sent["attempt"]}
        if sent["resolution"] == REPEAT:
            resolved = reconcile_outcomes.order_effect_again(**stated)
        elif sent["resolution"] == RECORDED_OUTCOME:
            resolved = reconcile_outcomes.confirm_recorded_outcome(**stated)
        else:
            resolved = reconcile_outcomes.resolve_unknown_outcome(
                outcome=sent["resolution"], evidence=sent["evidence"], **stated
            )
        return Response(EffectResponse.serialize(resolved))


class LiftHoldView(ApiView):
    """The end of a hold, by its owner."""

    @Operation(
        id="lift_hold",
        summary="Lift a hold of a run",
        description="`retry`: workers can claim the run again; with `undo_failed`, the compensation is performed "
        "again. `keep_effect`: an effect whose compensation failed stays as it is. `GET runs/{id}` lists the holds.",
        who=RECONCILER,
        request=LiftHoldRequest,
        responses={200: RunControlResponse},
        refusals=("not_found", "already_settled", "in_doubt"),
    )
    def post(self, request: Request, run_id: str) -> Response:
        caller = person_of(request)
        sent = self.validated_body(request)
        person = check_reconciler(caller)
        kind = HoldKind(sent["kind"])
        if kind in _LIFTED_ELSEWHERE:
            raise PayloadInvalid.at("/kind", _LIFTED_ELSEWHERE[kind])
        if sent["resolution"] == KEEP_EFFECT and kind != HoldKind.UNDO_FAILED:
            raise PayloadInvalid.at("/resolution", f"must be {RETRY}: {KEEP_EFFECT} is for the kind undo_failed")
        hold = _find_hold(person, run_id, kind=kind, subject=sent["subject"])
        lift = (
            reconcile_outcomes.waive_compensation
            if sent["resolution"] == KEEP_EFFECT
            else reconcile_outcomes.retry_held_run
        )
        run = lift(hold_id=hold.pk, person=person, reason=sent["reason"])
        return Response(RunControlResponse.serialize(run))


class WaiveFactView(ApiView):
    """The waiver of a fact."""

    @Operation(
        id="waive_fact",
        summary="Let a run continue without a fact",
        description="For a fact of the last checkpoint that cannot be checked, or that its worker does not check. Not "
        "for a run that you started.",
        who=RECONCILER,
        request=WaiveFactRequest,
        responses={200: RunControlResponse},
        refusals=("not_found",),
    )
    def post(self, request: Request, run_id: str) -> Response:
        caller = person_of(request)
        sent = self.validated_body(request)
        person = check_reconciler(caller)
        if not permissions.visible_runs(person).filter(public_id=run_id).exists():
            raise NotFound
        run = reconcile_facts.waive_fact(
            run_id=run_id,
            name=sent["name"],
            person=person,
            reason=sent["reason"],
            may_waive=permissions.may_waive_fact,
        )
        return Response(RunControlResponse.serialize(run))


def _find_effect(person: User, run_id: str, key: str) -> Effect:
    """Return the effect, also if its owner cannot see the run any more. Raises ``NotFound``."""
    effect = Effect.objects.filter(scope=run_id, key=key).first()
    if effect is None or not _is_visible(person, run_id, owner_id=effect.owner_id):
        raise NotFound
    return effect


def _find_hold(person: User, run_id: str, *, kind: HoldKind, subject: str) -> Hold:
    hold = Hold.objects.filter(run__public_id=run_id, kind=kind, subject=subject, lifted_at=None).first()
    if hold is None or not _is_visible(person, run_id, owner_id=hold.owner_id):
        raise NotFound
    return hold


def _is_visible(person: User, run_id: str, *, owner_id: int) -> bool:
    visible: bool = permissions.visible_runs(person).filter(public_id=run_id).exists()
    return visible or reconcile_outcomes.may_resolve(person, owner_id=owner_id)
