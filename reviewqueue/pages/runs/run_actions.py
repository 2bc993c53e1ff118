"""The actions on the page of a run: pause, resume, cancel, retag and restart, each with its consequence and a reason.

``actions_for`` lists the actions that the reader is permitted to use. ``perform_action`` is the POST of each; the use case
checks the permission again under the run's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django.contrib import messages
from django.contrib.auth.models import AbstractUser
from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import redirect, resolve_url
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_POST
from django_htmx.http import HttpResponseClientRedirect

from ledger.actors import person_actor
from ledger.effect_queries import EffectCounts
from ledger.errors import NotFound, PayloadInvalid, Refusal
from ledger.states import OPEN_EFFECTS, EffectStatus
from reviewqueue import permissions
from reviewqueue.pages.rendering import PageRequest, not_found_if_invisible
from reviewqueue.text.hidden_characters import mark_hidden_plain
from reviewqueue.text.problem_texts import refusal_text
from runs.models import Checkpoint, Run
from runs.states import FINAL, RunStatus
from runs.use_cases import control_run

LONGEST_REASON = 300
LONGEST_VERSION = 100


@dataclass(frozen=True, kw_only=True)
class RunAction:
    """One action: what it does, or why it is not available now (``blocked``)."""

    verb: str
    label: str
    consequence: str
    button: str
    blocked: str = ""
    is_grave: bool = False
    needs_reason: bool = False
    asks_version: bool = False
    checkpoints: tuple[Checkpoint, ...] = ()  # to choose from, newest first


def actions_for(
    reader: AbstractUser, run: Run, effects: EffectCounts, checkpoints: Sequence[Checkpoint] = ()
) -> list[RunAction]:
    """Return the actions that the reader is permitted to use, with those that are blocked now."""
    may_control = permissions.why_not_control(reader, run) is None
    may_restart = permissions.why_not_restart(reader, run) is None
    if run.status in FINAL:
        return [_restart(run, effects, checkpoints)] if may_restart and run.status != RunStatus.COMPLETED else []
    if not may_control:
        return []
    actions = [_resume(run) if run.pause_asked_at else _pause(run), _cancel(run, effects)]
    has_version = run.code_version or run.handed_back
    if has_version and not run.ending and permissions.why_not_retag(reader, run) is None:
        actions.insert(1, _retag(run))
    return actions


def _retag(run: Run) -> RunAction:
    parts = [_("From now on only workers that have or accept that code version can claim the run.")]
    if run.handed_back:
        parts.append(_("Earlier hand-backs no longer block it."))
    parts.append(_("Make sure that they can read its checkpoint."))
    return RunAction(
        verb="retag",
        label=_("Assign to another code version"),
        consequence=" ".join(parts),
        button=_("Set the code version"),
        blocked=_("Not available while a worker holds the lease.") if run.lease_until else "",
        needs_reason=True,
        asks_version=True,
    )


def _pause(run: Run) -> RunAction:
    at_once = (
        _("It stops at its next safe point; no effect begins until then.")
        if run.lease_until
        else _("It stops at once.")
    )
    later = _("Decisions are kept and deadlines keep running. After 7 days the run expires.")
    return RunAction(
        verb="pause",
        label=_("Pause"),
        consequence=f"{at_once} {later}",
        button=_("Pause this run"),
        blocked=_("The run is already ending.") if run.ending else "",
    )


def _resume(run: Run) -> RunAction:
    still = (
        _("It has not stopped yet, so it continues.")
        if run.lease_until
        else _("Its decisions and facts are checked again first.")
    )
    return RunAction(verb="resume", label=_("Resume"), consequence=still, button=_("Resume this run"))


def _cancel(run: Run, effects: EffectCounts) -> RunAction:
    parts = [_("Its open requests are closed, and no new effect can begin.")]
    if run.lease_until:
        parts.append(_("Its worker can still report what it did and stops at its next safe point."))
    unknown = sum(effects.statuses.get(status, 0) for status in OPEN_EFFECTS)
    if unknown:
        parts.append(_("Effects with an unknown outcome go to their owner first ({number}).").format(number=unknown))
    back, stays = effects.compensated_on_cancel, effects.applied - effects.compensated_on_cancel
    if back:
        text = _("A worker compensates the applied effects that declare a compensation, newest first ({number}).")
        parts.append(text.format(number=back))
    if stays:
        text = (
            _("Other applied effects stay as they are ({number}).")
            if back
            else _("Applied effects stay as they are ({number}).")
        )
        parts.append(text.format(number=stays))
    parts.append(_("You cannot undo this; you can only restart the run."))
    return RunAction(
        verb="cancel",
        label=_("Cancel"),
        consequence=" ".join(parts),
        button=_("Cancel this run"),
        blocked=_("The run is already ending.") if run.ending else "",
        is_grave=True,
    )


def _restart(run: Run, effects: EffectCounts, checkpoints: Sequence[Checkpoint]) -> RunAction:
    undecided = sum(effects.statuses.get(status, 0) for status in (EffectStatus.FAILED, EffectStatus.COMPENSATED))
    parts = [
        _("It continues from a checkpoint as epoch {number}.").format(number=run.epoch + 1),
        _("Applied effects are not repeated."),
    ]
    if undecided:
        parts.append(_("Failed effects stay as they are ({number}).").format(number=undecided))
    parts.append(_("Facts are checked again, and the agent asks again."))
    return RunAction(
        verb="restart",
        label=_("Restart"),
        consequence=" ".join(parts),
        button=_("Restart this run"),
        needs_reason=True,
        checkpoints=tuple(checkpoint for checkpoint in checkpoints if checkpoint.erased_at is None),
    )


@require_POST
@not_found_if_invisible
def perform_action(request: PageRequest, run_id: str, verb: str) -> HttpResponse:
    """Perform one action; a message on the run's page says what followed, or why it was refused."""
    reason = request.POST.get("reason", "").strip()
    if verb not in _ACTIONS:
        raise Http404
    if "\x00" in reason:
        messages.error(request, _("The reason must not contain the character U+0000. Nothing was changed."))
    elif len(reason) > LONGEST_REASON or (verb in {"restart", "retag"} and not reason):
        messages.error(request, reason_too_long())
    elif verb == "retag" and not _is_version(_version(request.POST)):
        problem = _("The code version must have 1 to {most} characters. Nothing was changed.")
        messages.error(request, problem.format(most=LONGEST_VERSION))
    else:
        try:
            messages.success(request, _ACTIONS[verb](request.user, run_id, reason, request.POST))
        except NotFound:
            raise
        except Refusal as refusal:
            messages.error(request, f"{_NOT_DONE[verb]} {refusal_text(refusal)}")
    address = resolve_url("run", run_id)
    return HttpResponseClientRedirect(address) if request.htmx else redirect(address)


def reason_too_long() -> str:
    """Return the message for an empty or too long reason."""
    text = _("The reason must have 1 to {most} characters. Nothing was changed.")
    return text.format(most=LONGEST_REASON)


def _do_pause(person: AbstractUser, run_id: str, reason: str, form: QueryDict) -> str:
    check = permissions.make_control_check(person)
    run = control_run.pause_run(run_id=run_id, actor=person_actor(person), reason=reason, check=check)
    return _("The run stops at its next safe point.") if run.lease_until else _("Paused.")


def _do_resume(person: AbstractUser, run_id: str, reason: str, form: QueryDict) -> str:
    check = permissions.make_control_check(person)
    control_run.resume_run(run_id=run_id, actor=person_actor(person), reason=reason, check=check)
    return _("Resumed.")


def _do_cancel(person: AbstractUser, run_id: str, reason: str, form: QueryDict) -> str:
    check = permissions.make_control_check(person)
    run = control_run.cancel_run(run_id=run_id, actor=person_actor(person), reason=reason, check=check)
    return (
        _("Cancelled.")
        if run.ended_at
        else _("The run is ending. Its worker must stop or an unknown outcome must be resolved first.")
    )


def _do_restart(person: AbstractUser, run_id: str, reason: str, form: QueryDict) -> str:
    check = permissions.make_restart_check(person)
    chosen = form.get("checkpoint", "")
    if chosen and not (chosen.isascii() and chosen.isdigit() and len(chosen) < 10):
        raise PayloadInvalid.at("/checkpoint", "must be the number of a checkpoint of this run")
    number = int(chosen) if chosen else None
    control_run.restart_run(
        run_id=run_id, checkpoint_number=number, person=person, reason=reason, check=check, keep_failed=True
    )
    return _("Restarted. The run continues when its facts have been checked.")


def _do_retag(person: AbstractUser, run_id: str, reason: str, form: QueryDict) -> str:
    check, version = permissions.make_retag_check(person), _version(form)
    control_run.retag_run(run_id=run_id, actor=person_actor(person), code_version=version, reason=reason, check=check)
    text = _("Only workers with code version {version} can claim the run now.")
    return text.format(version=mark_hidden_plain(version))


def _version(form: QueryDict) -> str:
    return form.get("code_version", "").strip()


def _is_version(version: str) -> bool:
    return 0 < len(version) <= LONGEST_VERSION and "\x00" not in version


_NOT_DONE = {
    "pause": gettext_lazy("The run was not paused."),
    "resume": gettext_lazy("The run was not resumed."),
    "cancel": gettext_lazy("The run was not cancelled."),
    "retag": gettext_lazy("The code version was not changed."),
    "restart": gettext_lazy("The run was not restarted."),
}
_ACTIONS: dict[str, Callable[[AbstractUser, str, str, QueryDict], str]] = {
    "pause": _do_pause,
    "resume": _do_resume,
    "cancel": _do_cancel,
    "retag": _do_retag,
    "restart": _do_restart,
}
