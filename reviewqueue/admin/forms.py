"""The owners' forms: what a person may say of an effect in question or of a hold, and the verb each word calls.

Called by the desks of effects and holds. The rules (who may, and when) are those of `runs.use_cases.reconcile_outcomes` and
`runs.use_cases.reconcile_facts`: what they refuse is told in their own sentence, and nothing is checked twice here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from django import forms
from django.contrib.auth.models import User

from ledger.models import Effect, Order
from ledger.states import EffectStatus
from reviewqueue import permissions
from runs.models import Hold, Run
from runs.states import HoldKind
from runs.use_cases import reconcile_facts, reconcile_outcomes


@dataclass(frozen=True, kw_only=True)
class Word:
    """One thing an owner may say: how it is labelled, and what follows from it."""

    value: str
    label: str
    means: str


APPLIED = Word(
    value="applied",
    label="It happened",
    means="The agent is told that it was done, and goes on.",
)
FAILED = Word(
    value="failed",
    label="It did not happen",
    means="You know that it was not done. The agent is told so, and does not try it again by itself.",
)
AGAIN = Word(
    value="again",
    label="Do it again",
    means="The next worker performs this very call once more. If it happened the first time, it happens twice.",
)
LOOKED = Word(
    value="looked",
    label="I have looked into the contradiction",
    means="The outcome that stands goes on standing, and the run goes on.",
)


class SettlingForm(forms.Form):
    """One word with its reason. ``attempt`` is the one the person looked at."""

    word = forms.ChoiceField(choices=[(word.value, word.label) for word in (APPLIED, FAILED, AGAIN, LOOKED)])
    reason = forms.CharField(max_length=2_000, widget=forms.Textarea(attrs={"rows": 3}))
    evidence = forms.CharField(max_length=10_000, required=False, widget=forms.Textarea(attrs={"rows": 3}))
    attempt = forms.IntegerField(min_value=1, widget=forms.HiddenInput)


def words_for(effect: Effect, run: Run | None) -> Iterator[Word]:
    """Yield what can be said of the effect now; nothing where its outcome is not in question."""
    contradicted = Hold.objects.filter(
        run=run, kind=HoldKind.CONTRADICTION, subject=effect.key, lifted_at=None
    ).exists()
    if contradicted:
        yield LOOKED
    if effect.status == EffectStatus.UNKNOWN:
        yield APPLIED
        yield FAILED
    ordered = Order.objects.filter(effect=effect, used_by_attempt__isnull=True).exists()
    ends = run is None or run.ended_at or (run.ending and effect.undoes_id is None)
    if effect.status in {EffectStatus.UNKNOWN, EffectStatus.FAILED, EffectStatus.COMPENSATED} and not (ordered or ends):
        yield AGAIN


def say(effect: Effect, form: SettlingForm, *, person: User) -> str:
    """Do what the valid form says, in its own transaction, and return what was done. Raises the verbs' refusals."""
    said = form.cleaned_data
    word, reason, attempt = said["word"], said["reason"], said["attempt"]
    if word == AGAIN.value:
        reconcile_outcomes.order_effect_again(effect_id=effect.pk, person=person, reason=reason, attempt=attempt)
        return f"The next worker that asks for {effect.key} does it again."
    if word == LOOKED.value:
        reconcile_outcomes.close_contradiction(effect_id=effect.pk, person=person, reason=reason)
        return f"The contradiction about {effect.key} is closed."
    reconcile_outcomes.settle_unknown(
        effect_id=effect.pk, outcome=word, person=person, reason=reason, evidence=said["evidence"], attempt=attempt
    )
    return f"Settled: {effect.key}. {APPLIED.label if word == APPLIED.value else FAILED.label}."


class HoldForm(forms.Form):
    """Why the run may go on."""

    reason = forms.CharField(max_length=300, widget=forms.Textarea(attrs={"rows": 3}))


WITHOUT_IT = Word(
    value="waive",
    label="Go on without this fact",
    means="It is not asked for any more before this run goes on. The agent and the timeline are told that you waived it.",
)
TRY_AGAIN = Word(
    value="retry",
    label="Let workers try again",
    means="The next worker that claims the run starts from its last checkpoint; the count of its claims starts anew.",
)
UNDO_AGAIN = Word(
    value="undo",
    label="Take it back once more",
    means="The next worker makes the call that takes it back once more, by your order.",
)
STAYS = Word(
    value="stays",
    label="Let it stay",
    means="It is left as it is, or you have taken it back yourself. What was done before it is taken back all the same.",
)
COMPARED = Word(
    value="compared",
    label="I have compared it: go on",
    means="You know what this run did outside since the backup, and its ledger bears it out. It goes on from the last "
    "checkpoint that the backup has; what the ledger does not know would be done again.",
)
GO_PAST = Word(
    value="past",
    label="The run may go on past it",
    means="You know what happened, and that doing its step again does not do it twice.",
)
OF_HOLDS: dict[str, tuple[Word, ...]] = {
    HoldKind.FACT_UNAVAILABLE: (WITHOUT_IT,),
    HoldKind.GAVE_UP: (TRY_AGAIN,),
    HoldKind.STRANDED: (TRY_AGAIN,),
    HoldKind.NO_DECIDER: (TRY_AGAIN,),
    HoldKind.UNDO_FAILED: (UNDO_AGAIN, STAYS),
    HoldKind.UNSTABLE_KEY: (GO_PAST,),
    HoldKind.RESTORED: (COMPARED,),
    HoldKind.CHECKPOINT_SPOILT: (TRY_AGAIN,),
}


def words_for_hold(hold: Hold) -> tuple[Word, ...]:
    """Return what its owner may say of the hold; nothing where it is lifted, or goes with an effect that is settled."""
    return () if hold.lifted_at else OF_HOLDS.get(hold.kind, ())


def lift(hold: Hold, word: Word, *, person: User, reason: str) -> str:
    """Do what the word says, in its own transaction, and return what was done. Raises the verbs' refusals."""
    if word == STAYS:
        reconcile_outcomes.leave_as_it_is(hold_id=hold.pk, person=person, reason=reason)
        return "The effect stays; the older ones are taken back."
    if word in (TRY_AGAIN, UNDO_AGAIN, COMPARED, GO_PAST):
        reconcile_outcomes.retry_held_run(hold_id=hold.pk, person=person, reason=reason)
        return "The next worker may claim the run."
    reconcile_facts.waive_fact(
        run_id=hold.run.public_id,
        name=hold.subject,
        person=person,
        reason=reason,
        may_waive=permissions.may_waive_fact,
    )
    return f"The run goes on without {hold.subject}."
