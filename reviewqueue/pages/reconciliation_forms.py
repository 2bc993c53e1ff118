"""Forms to resolve unknown outcomes and holds. Each resolution calls one use case.

`runs.use_cases.reconcile_outcomes` and `runs.use_cases.reconcile_facts` decide who can resolve what and when; their refusals
are shown as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django import forms
from django.contrib.auth.models import User
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ledger.models import Effect, Order
from ledger.states import EffectStatus
from reviewqueue import permissions
from runs.models import Hold, Run
from runs.states import HoldKind
from runs.use_cases import reconcile_facts, reconcile_outcomes

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise as Label


@dataclass(frozen=True, kw_only=True)
class Resolution:
    """One way to resolve an effect or a hold: its label, and its consequence."""

    value: str
    label: Label
    consequence: Label


APPLIED = Resolution(
    value="applied",
    label=gettext_lazy("It happened"),
    consequence=gettext_lazy("The agent learns that the effect was applied, and continues."),
)
FAILED = Resolution(
    value="failed",
    label=gettext_lazy("It did not happen"),
    consequence=gettext_lazy(
        "You know that it was not applied. The agent learns this, and does not repeat it by itself."
    ),
)
REPEAT = Resolution(
    value="again",
    label=gettext_lazy("Do it again"),
    consequence=gettext_lazy(
        "The next worker performs exactly this call again. If it happened the first time, it happens twice."
    ),
)
CONTRADICTION_RESOLVED = Resolution(
    value="looked",
    label=gettext_lazy("The recorded outcome is right"),
    consequence=gettext_lazy(
        "You have checked the contradicting reports. The recorded outcome remains, and the run continues."
    ),
)


class ResolutionForm(forms.Form):
    """One resolution with its reason. ``attempt`` is the attempt that the page showed."""

    resolution = forms.ChoiceField(
        choices=[(it.value, it.label) for it in (APPLIED, FAILED, REPEAT, CONTRADICTION_RESOLVED)]
    )
    reason = forms.CharField(max_length=2_000, widget=forms.Textarea(attrs={"rows": 3}))
    evidence = forms.CharField(max_length=10_000, required=False, widget=forms.Textarea(attrs={"rows": 3}))
    attempt = forms.IntegerField(min_value=1, widget=forms.HiddenInput)


def effect_resolutions(effect: Effect, run: Run | None) -> Iterator[Resolution]:
    """Yield the resolutions available now; none if the outcome is not in question."""
    contradicted = Hold.objects.filter(
        run=run, kind=HoldKind.CONTRADICTION, subject=effect.key, lifted_at=None
    ).exists()
    if contradicted:
        yield CONTRADICTION_RESOLVED
    if effect.status == EffectStatus.UNKNOWN:
        yield APPLIED
        yield FAILED
    ordered = Order.objects.filter(effect=effect, used_by_attempt__isnull=True).exists()
    ends = run is None or run.ended_at or (run.ending and effect.undoes_id is None)
    if effect.status in {EffectStatus.UNKNOWN, EffectStatus.FAILED, EffectStatus.COMPENSATED} and not (ordered or ends):
        yield REPEAT


def resolve_effect(effect: Effect, form: ResolutionForm, *, person: User) -> str:
    """Apply the valid form in a transaction of its own, and return a sentence. Raises the refusals of the use case."""
    given = form.cleaned_data
    resolution, reason, attempt = given["resolution"], given["reason"], given["attempt"]
    if resolution == REPEAT.value:
        reconcile_outcomes.order_effect_again(effect_id=effect.pk, person=person, reason=reason, attempt=attempt)
        return _("The next worker that begins {effect} performs it again.").format(effect=effect.key)
    if resolution == CONTRADICTION_RESOLVED.value:
        reconcile_outcomes.confirm_recorded_outcome(effect_id=effect.pk, person=person, reason=reason)
        return _("The contradicting reports of {effect} are resolved.").format(effect=effect.key)
    reconcile_outcomes.resolve_unknown_outcome(
        effect_id=effect.pk,
        outcome=resolution,
        person=person,
        reason=reason,
        evidence=given["evidence"],
        attempt=attempt,
    )
    label = APPLIED.label if resolution == APPLIED.value else FAILED.label
    return _("Resolved: {effect}. {outcome}.").format(effect=effect.key, outcome=label)


class HoldForm(forms.Form):
    """Why the run can continue."""

    reason = forms.CharField(max_length=300, widget=forms.Textarea(attrs={"rows": 3}))


WAIVE_FACT = Resolution(
    value="waive",
    label=gettext_lazy("Continue without this fact"),
    consequence=gettext_lazy(
        "The run continues without another check of this fact. The agent and the timeline show that you waived it."
    ),
)
RETRY = Resolution(
    value="retry",
    label=gettext_lazy("Let workers try again"),
    consequence=gettext_lazy(
        "The next worker that claims the run starts from its last checkpoint, and the count of its claims restarts."
    ),
)
COMPENSATE_AGAIN = Resolution(
    value="undo",
    label=gettext_lazy("Compensate again"),
    consequence=gettext_lazy("The next worker performs the compensating call again."),
)
KEEP_EFFECT = Resolution(
    value="stays",
    label=gettext_lazy("Keep the effect"),
    consequence=gettext_lazy(
        "It needs no compensation, or you have compensated it yourself. Earlier effects are still compensated."
    ),
)
CHECKED_AFTER_RESTORE = Resolution(
    value="compared",
    label=gettext_lazy("Checked: continue"),
    consequence=gettext_lazy(
        "You know which effects this run had after the backup, and its records match them. It continues from its "
        "last checkpoint in the backup, and would repeat effects that the records do not contain."
    ),
)
CONTINUE_PAST = Resolution(
    value="past",
    label=gettext_lazy("Continue past it"),
    consequence=gettext_lazy("You know what happened, and that repeating the step does not repeat the effect."),
)
HOLD_RESOLUTIONS: dict[str, tuple[Resolution, ...]] = {
    HoldKind.FACT_UNAVAILABLE: (WAIVE_FACT,),
    HoldKind.GAVE_UP: (RETRY,),
    HoldKind.STRANDED: (RETRY,),
    HoldKind.NO_DECIDER: (RETRY,),
    HoldKind.UNDO_FAILED: (COMPENSATE_AGAIN, KEEP_EFFECT),
    HoldKind.UNSTABLE_KEY: (CONTINUE_PAST,),
    HoldKind.RESTORED: (CHECKED_AFTER_RESTORE,),
    HoldKind.CHECKPOINT_SPOILT: (RETRY,),
}


def hold_resolutions(hold: Hold) -> tuple[Resolution, ...]:
    """Return the resolutions of a hold; none if it is lifted, or is resolved at its effect."""
    return () if hold.lifted_at else HOLD_RESOLUTIONS.get(hold.kind, ())


def resolve_hold(hold: Hold, resolution: Resolution, *, person: User, reason: str) -> str:
    """Apply the resolution in a transaction of its own, and return a sentence. Raises the refusals of the use case."""
    if resolution == KEEP_EFFECT:
        reconcile_outcomes.waive_compensation(hold_id=hold.pk, person=person, reason=reason)
        return _("The effect is kept; earlier effects are compensated.")
    if resolution in (RETRY, COMPENSATE_AGAIN, CHECKED_AFTER_RESTORE, CONTINUE_PAST):
        reconcile_outcomes.retry_held_run(hold_id=hold.pk, person=person, reason=reason)
        return _("Workers can claim the run.")
    reconcile_facts.waive_fact(
        run_id=hold.run.public_id,
        name=hold.subject,
        person=person,
        reason=reason,
        may_waive=permissions.may_waive_fact,
    )
    return _("The run continues without {fact}.").format(fact=hold.subject)
