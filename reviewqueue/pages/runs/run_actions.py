"""The levers of a run on its page: pause, resume, cancel, retag, restart, each with its consequence and a reason.

``levers_for`` says which stand ready for this reader and why the others do not; ``pull`` is the POST of each. The rights are
those of ``authority``, judged again under the run's lock by the verb's ``check``.
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

from ledger.actors import by_person
from ledger.effect_queries import EffectCounts
from ledger.errors import NotFound, PayloadInvalid, Refusal
from ledger.states import OPEN, EffectStatus
from reviewqueue import permissions
from reviewqueue.pages.rendering import PageRequest, foreign_is_missing
from reviewqueue.text.hidden_characters import seen_plain
from runs.models import Checkpoint, Run
from runs.states import FINAL, RunStatus
from runs.use_cases import control_run

LONGEST_REASON = 300
LONGEST_VERSION = 100


@dataclass(frozen=True, kw_only=True)
class Lever:
    """One lever: what it does, or why it cannot be pulled now (``blocked``)."""

    verb: str
    words: str
    consequence: str
    button: str
    blocked: str = ""
    is_grave: bool = False
    needs_reason: bool = False
    asks_version: bool = False
    checkpoints: tuple[Checkpoint, ...] = ()  # those to choose from, the newest first


def levers_for(
    reader: AbstractUser, run: Run, effects: EffectCounts, checkpoints: Sequence[Checkpoint] = ()
) -> list[Lever]:
    """Return the levers of this run as they stand for its reader; none when the reader may pull none of them."""
    may_control = permissions.why_not_control(reader, run) is None
    may_restart = permissions.why_not_restart(reader, run) is None
    if run.status in FINAL:
        return [_restart(run, effects, checkpoints)] if may_restart and run.status != RunStatus.COMPLETED else []
    if not may_control:
        return []
    levers = [_resume(run) if run.pause_asked_at else _pause(run), _cancel(run, effects)]
    has_version = run.code_version or run.handed_back
    if has_version and not run.ending and permissions.why_not_retag(reader, run) is None:
        levers.insert(1, _retag(run))
    return levers


def _retag(run: Run) -> Lever:
    let_go = " What kept it back for want of one is past." if run.handed_back else ""
    return Lever(
        verb="retag",
        words="Give it to another version",
        consequence="Workers that have or accept that version of the code may claim it from now on, and no others."
        f"{let_go} Be sure that they can read its checkpoint.",
        button="Set the version",
        blocked="A worker goes on with it now, in its own version." if run.lease_until else "",
        needs_reason=True,
        asks_version=True,
    )


def _pause(run: Run) -> Lever:
    at_once = (
        "It stops at its next safe point; until then no effect begins." if run.lease_until else "It stops at once."
    )
    return Lever(
        verb="pause",
        words="Pause",
        consequence=f"{at_once} Answers are kept, deadlines go on. After 7 days it expires.",
        button="Pause this run",
        blocked="It is ending already." if run.ending else "",
    )


def _resume(run: Run) -> Lever:
    still = (
        "It has not stopped yet, so it simply goes on."
        if run.lease_until
        else "What was answered is checked again first."
    )
    return Lever(verb="resume", words="Resume", consequence=still, button="Resume this run")


def _cancel(run: Run, effects: EffectCounts) -> Lever:
    parts = ["Its open questions are closed now, and no effect begins any more."]
    if run.lease_until:
        parts.append("Its worker may still report what it did, and closes at its next safe point.")
    unknown = sum(effects.statuses.get(status, 0) for status in OPEN)
    if unknown:
        parts.append(f"What is not known goes to its owner first ({unknown}).")
    back, stays = effects.compensated_on_cancel, effects.applied - effects.compensated_on_cancel
    if back:
        parts.append(f"What was done and says how is taken back by a worker, the newest first ({back}).")
    if stays:
        parts.append(f"What{' else' if back else ''} was done stays done ({stays}).")
    parts.append("It cannot be uncancelled, only restarted.")
    return Lever(
        verb="cancel",
        words="Cancel",
        consequence=" ".join(parts),
        button="Cancel this run",
        blocked="It is ending already." if run.ending else "",
        is_grave=True,
    )


def _restart(run: Run, effects: EffectCounts, checkpoints: Sequence[Checkpoint]) -> Lever:
    undecided = sum(effects.statuses.get(status, 0) for status in (EffectStatus.FAILED, EffectStatus.COMPENSATED))
    kept = f" What failed stays as it is ({undecided})." if undecided else ""
    return Lever(
        verb="restart",
        words="Restart",
        consequence=f"It goes on from a checkpoint as epoch {run.epoch + 1}, with its ledger: what was done is not"
        f" done again.{kept} Facts are checked again, and the agent asks anew.",
        button="Restart this run",
        needs_reason=True,
        checkpoints=tuple(checkpoint for checkpoint in checkpoints if checkpoint.erased_at is None),
    )


@require_POST
@foreign_is_missing
def pull(request: PageRequest, run_id: str, verb: str) -> HttpResponse:
    """Pull one lever; what followed, or why not, is told in one sentence on the run's page."""
    reason = request.POST.get("reason", "").strip()
    if verb not in _VERBS:
        raise Http404
    if "\x00" in reason:
        messages.error(request, "The reason holds a character that cannot be stored. Nothing was done.")
    elif len(reason) > LONGEST_REASON or (verb in {"restart", "retag"} and not reason):
        messages.error(request, f"Say why, in up to {LONGEST_REASON} characters.")
    elif verb == "retag" and not _is_version(_version(request.POST)):
        messages.error(request, f"Name the version, in up to {LONGEST_VERSION} characters that can be stored.")
    else:
        try:
            messages.success(request, _VERBS[verb](request.user, run_id, reason, request.POST))
        except NotFound:
            raise
        except Refusal as refusal:
            messages.error(request, f"{_NOT_DONE[verb]} {refusal.detail}")
    address = resolve_url("run", run_id)
    return HttpResponseClientRedirect(address) if request.htmx else redirect(address)


def _pull_pause(person: AbstractUser, run_id: str, reason: str, form: QueryDict) -> str:
    check = permissions.control_check(person)
    run = control_run.pause_run(run_id=run_id, actor=by_person(person), reason=reason, check=check)
    return "It stops at its next safe point." if run.lease_until else "Paused."


def _pull_resume(person: AbstractUser, run_id: str, reason: str, form: QueryDict) -> str:
    check = permissions.control_check(person)
    control_run.resume_run(run_id=run_id, actor=by_person(person), reason=reason, check=check)
    return "Resumed."


def _pull_cancel(person: AbstractUser, run_id: str, reason: str, form: QueryDict) -> str:
    check = permissions.control_check(person)
    run = control_run.cancel_run(run_id=run_id, actor=by_person(person), reason=reason, check=check)
    return "Cancelled." if run.ended_at else "It is ending: its worker or an open outcome comes first."


def _pull_restart(person: AbstractUser, run_id: str, reason: str, form: QueryDict) -> str:
    check = permissions.restart_check(person)
    chosen = form.get("checkpoint", "")
    if chosen and not (chosen.isascii() and chosen.isdigit() and len(chosen) < 10):
        raise PayloadInvalid.at("/checkpoint", "must be the number of a checkpoint of this run")
    number = int(chosen) if chosen else None
    control_run.restart_run(
        run_id=run_id, checkpoint_number=number, person=person, reason=reason, check=check, keep_failed=True
    )
    return "Restarted: it goes on as soon as its facts are checked."


def _pull_retag(person: AbstractUser, run_id: str, reason: str, form: QueryDict) -> str:
    check, version = permissions.retag_check(person), _version(form)
    control_run.retag_run(run_id=run_id, actor=by_person(person), code_version=version, reason=reason, check=check)
    return f"It waits for workers of code version {seen_plain(version)}."


def _version(form: QueryDict) -> str:
    return form.get("code_version", "").strip()


def _is_version(version: str) -> bool:
    return 0 < len(version) <= LONGEST_VERSION and "\x00" not in version


_NOT_DONE = {
    "pause": "It was not paused.",
    "resume": "It was not resumed.",
    "cancel": "It was not cancelled.",
    "retag": "It keeps its version.",
    "restart": "Nothing was restarted.",
}
_VERBS: dict[str, Callable[[AbstractUser, str, str, QueryDict], str]] = {
    "pause": _pull_pause,
    "resume": _pull_resume,
    "cancel": _pull_cancel,
    "retag": _pull_retag,
    "restart": _pull_restart,
}
