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
from django.views.decorators.http import require_POST
from django_htmx.http import HttpResponseClientRedirect

from ledger.actors import person_actor
from ledger.effect_queries import EffectCounts
from ledger.errors import NotFound, PayloadInvalid, Refusal
from ledger.states import OPEN_EFFECTS, EffectStatus
from reviewqueue import permissions
from reviewqueue.pages.rendering import PageRequest, not_found_if_invisible
from reviewqueue.text.hidden_characters import mark_hidden_plain
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
    unblocked = " Earlier hand-backs no longer block it." if run.handed_back else ""
    return RunAction(
        verb="retag",
        label="Assign to another code version",
        consequence="From now on only workers that have or accept that code version can claim the run."
        f"{unblocked} Make sure that they can read its checkpoint.",
        button="Set the code version",
        blocked="Not available while a worker holds the lease." if run.lease_until else "",
        needs_reason=True,
        asks_version=True,
    )


def _pause(run: Run) -> RunAction:
    at_once = (
        "It stops at its next safe point; no effect begins until then." if run.lease_until else "It stops at once."
    )
    return RunAction(
        verb="pause",
        label="Pause",
        consequence=f"{at_once} Decisions are kept and deadlines keep running. After 7 days the run expires.",
        button="Pause this run",
        blocked="The run is already ending." if run.ending else "",
    )


def _resume(run: Run) -> RunAction:
    still = (
        "It has not stopped yet, so it continues."
        if run.lease_until
        else "Its decisions and facts are checked again first."
    )
    return RunAction(verb="resume", label="Resume", consequence=still, button="Resume this run")


def _cancel(run: Run, effects: EffectCounts) -> RunAction:
    parts = ["Its open requests are closed, and no new effect can begin."]
    if run.lease_until:
        parts.append("Its worker can still report what it did and stops at its next safe point.")
    unknown = sum(effects.statuses.get(status, 0) for status in OPEN_EFFECTS)
    if unknown:
        parts.append(f"Effects with an unknown outcome go to their owner first ({unknown}).")
    back, stays = effects.compensated_on_cancel, effects.applied - effects.compensated_on_cancel
    if back:
        parts.append(f"A worker compensates the applied effects that declare a compensation, newest first ({back}).")
    if stays:
        parts.append(f"{'Other applied' if back else 'Applied'} effects stay as they are ({stays}).")
    parts.append("You cannot undo this; you can only restart the run.")
    return RunAction(
        verb="cancel",
        label="Cancel",
        consequence=" ".join(parts),
        button="Cancel this run",
        blocked="The run is already ending." if run.ending else "",
        is_grave=True,
    )


def _restart(run: Run, effects: EffectCounts, checkpoints: Sequence[Checkpoint]) -> RunAction:
    undecided = sum(effects.statuses.get(status, 0) for status in (EffectStatus.FAILED, EffectStatus.COMPENSATED))
    kept = f" Failed effects stay as they are ({undecided})." if undecided else ""
    return RunAction(
        verb="restart",
        label="Restart",
        consequence=f"It continues from a checkpoint as epoch {run.epoch + 1}. Applied effects are not repeated."
        f"{kept} Facts are checked again, and the agent asks again.",
        button="Restart this run",
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
        messages.error(request, "The reason must not contain the character U+0000. Nothing was changed.")
    elif len(reason) > LONGEST_REASON or (verb in {"restart", "retag"} and not reason):
        messages.error(request, f"The reason must have 1 to {LONGEST_REASON} characters. Nothing was changed.")
    elif verb == "retag" and not _is_version(_version(request.POST)):
        messages.error(request, f"The code version must have 1 to {LONGEST_VERSION} characters. Nothing was changed.")
    else:
        try:
            messages.success(request, _ACTIONS[verb](request.user, run_id, reason, request.POST))
        except NotFound:
            raise
        except Refusal as refusal:
            messages.error(request, f"{_NOT_DONE[verb]} {refusal.detail}")
    address = resolve_url("run", run_id)
    return HttpResponseClientRedirect(address) if request.htmx else redirect(address)


def _do_pause(person: AbstractUser, run_id: str, reason: str, form: QueryDict) -> str:
    check = permissions.make_control_check(person)
    run = control_run.pause_run(run_id=run_id, actor=person_actor(person), reason=reason, check=check)
    return "The run stops at its next safe point." if run.lease_until else "Paused."


def _do_resume(person: AbstractUser, run_id: str, reason: str, form: QueryDict) -> str:
    check = permissions.make_control_check(person)
    control_run.resume_run(run_id=run_id, actor=person_actor(person), reason=reason, check=check)
    return "Resumed."


def _do_cancel(person: AbstractUser, run_id: str, reason: str, form: QueryDict) -> str:
    check = permissions.make_control_check(person)
    run = control_run.cancel_run(run_id=run_id, actor=person_actor(person), reason=reason, check=check)
    return (
        "Cancelled."
        if run.ended_at
        else "The run is ending. Its worker must stop or an unknown outcome must be resolved first."
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
    return "Restarted. The run continues when its facts have been checked."


def _do_retag(person: AbstractUser, run_id: str, reason: str, form: QueryDict) -> str:
    check, version = permissions.make_retag_check(person), _version(form)
    control_run.retag_run(run_id=run_id, actor=person_actor(person), code_version=version, reason=reason, check=check)
    return f"Only workers with code version {mark_hidden_plain(version)} can claim the run now."


def _version(form: QueryDict) -> str:
    return form.get("code_version", "").strip()


def _is_version(version: str) -> bool:
    return 0 < len(version) <= LONGEST_VERSION and "\x00" not in version


_NOT_DONE = {
    "pause": "The run was not paused.",
    "resume": "The run was not resumed.",
    "cancel": "The run was not cancelled.",
    "retag": "The code version was not changed.",
    "restart": "The run was not restarted.",
}
_ACTIONS: dict[str, Callable[[AbstractUser, str, str, QueryDict], str]] = {
    "pause": _do_pause,
    "resume": _do_resume,
    "cancel": _do_cancel,
    "retag": _do_retag,
    "restart": _do_restart,
}
