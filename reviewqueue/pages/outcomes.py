"""The page for owners: unknown outcomes, holds and dead letters of their agents, with the forms to resolve them.

The use cases check again who can resolve what (`reconciliation_forms`). The admin site has every record.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from ledger.errors import NotFound, Refusal
from ledger.models import Effect
from ledger.states import EffectStatus
from reviewqueue.pages.empty_state import EmptyState
from reviewqueue.pages.reconciliation_forms import (
    HoldForm,
    Resolution,
    ResolutionForm,
    effect_resolutions,
    hold_resolutions,
    resolve_effect,
    resolve_hold,
)
from reviewqueue.pages.rendering import PageRequest, not_found_if_invisible, redirect_page, render_page
from reviewqueue.queries import dead_letters
from reviewqueue.queries.open_requests import shown_number
from reviewqueue.queries.to_resolve import count_to_resolve, open_holds, questioned_effects
from reviewqueue.text.hidden_characters import mark_hidden_plain
from reviewqueue.text.problem_texts import refusal_text
from runs.models import Hold, Run

PAGE_SIZE = 20


@dataclass(frozen=True, kw_only=True)
class ShownEffect:
    """An effect whose outcome is in question, its run, and how it can be resolved."""

    effect: Effect
    run: Run | None
    resolutions: list[Resolution]
    is_contradicted: bool


@dataclass(frozen=True, kw_only=True)
class ShownHold:
    """A hold of a run, and how it can be resolved."""

    hold: Hold
    resolutions: tuple[Resolution, ...]


@require_safe
@not_found_if_invisible
def outcomes(request: PageRequest) -> HttpResponse:
    """List what the reader must resolve, the oldest first."""
    person = _reconciler(request)
    effects, holds = list(questioned_effects(person)[: PAGE_SIZE + 1]), list(open_holds(person)[: PAGE_SIZE + 1])
    letters = dead_letters.list_dead_messages(person)
    shown = [_shown_effect(effect) for effect in effects[:PAGE_SIZE]]
    is_empty = not (effects or holds or letters.message_count or letters.signal_count or letters.notification_count)
    context = {
        "section": "outcomes",
        "effects": shown,
        "holds": [ShownHold(hold=hold, resolutions=hold_resolutions(hold)) for hold in holds[:PAGE_SIZE]],
        "more_effects": len(effects) > PAGE_SIZE,
        "more_holds": len(holds) > PAGE_SIZE,
        "dead": letters,
        "shown_signals": shown_number(letters.signal_count),
        "shown_messages": shown_number(letters.message_count),
        "shown_notifications": shown_number(letters.notification_count),
        "to_resolve": count_to_resolve(person),
        "empty": _empty_page() if is_empty else None,
    }
    return render_page(request, "outcomes/page.html", context)


def _empty_page() -> EmptyState:
    text = _("Unknown outcomes, holds and dead letters of your agents are listed here.")
    return EmptyState(picture="none-waiting", heading=_("Nothing to resolve"), text=text)


@require_POST
@not_found_if_invisible
def resolve(request: PageRequest, effect_id: str) -> HttpResponse:
    """Resolve the outcome of one effect."""
    person = _reconciler(request)
    effect = questioned_effects(person).filter(public_id=effect_id).first()
    if effect is None:
        raise NotFound
    form = ResolutionForm(request.POST)
    return _apply(request, form, lambda: resolve_effect(effect, form, person=person))


@require_POST
@not_found_if_invisible
def lift(request: PageRequest, run_id: str) -> HttpResponse:
    """Lift one hold of a run, which the form names by its kind and subject."""
    person = _reconciler(request)
    kind, subject = (request.POST.get(name, "").replace("\0", "") for name in ("kind", "subject"))
    hold = open_holds(person).filter(run__public_id=run_id, kind=kind[:40], subject=subject).first()
    if hold is None:
        raise NotFound
    chosen = next((it for it in hold_resolutions(hold) if it.value == request.POST.get("resolution")), None)
    form = HoldForm(request.POST)
    if chosen is None:
        messages.error(request, _("Choose how the hold is resolved. Nothing was changed."))
        return redirect_page(request, reverse("outcomes"))
    return _apply(request, form, lambda: resolve_hold(hold, chosen, person=person, reason=form.cleaned_data["reason"]))


def _apply(request: PageRequest, form: ResolutionForm | HoldForm, act: Callable[[], str]) -> HttpResponse:
    """Act if the form is valid, and say on the list what happened."""
    try:
        if form.is_valid():
            messages.success(request, mark_hidden_plain(act()))
        else:
            name, errors = next(iter(form.errors.items()))
            label = form.fields[name].label or str(name).capitalize()
            messages.error(request, f"{label}: {errors[0]} {_('Nothing was changed.')}")
    except NotFound:
        messages.error(request, _("It was resolved in the meantime. Nothing was changed."))
    except Refusal as refused:
        messages.error(request, mark_hidden_plain(refusal_text(refused)))
    return redirect_page(request, reverse("outcomes"))


def _reconciler(request: PageRequest) -> User:
    """Return the person if they have access to reconciliation. Raises ``NotFound``."""
    if not (request.user.is_active and request.user.is_staff):
        raise NotFound
    return cast(User, request.user)


def _shown_effect(effect: Effect) -> ShownEffect:
    run = Run.objects.filter(public_id=effect.scope).select_related("agent").first()
    return ShownEffect(
        effect=effect,
        run=run,
        resolutions=list(effect_resolutions(effect, run)),
        is_contradicted=effect.status != EffectStatus.UNKNOWN,
    )
