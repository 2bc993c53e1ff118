"""The template contexts of the list of runs and of the page of one run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.models import AbstractUser
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from reviewqueue import permissions
from reviewqueue.pages import code_labels
from reviewqueue.pages.call_labels import labels_of, request_heading_for_row
from reviewqueue.pages.empty_state import EmptyState
from reviewqueue.pages.interrupt.interrupt_context import effect_rows
from reviewqueue.pages.runs.run_actions import actions_for
from reviewqueue.pages.runs.timeline_text import timeline_entries
from reviewqueue.pages.runs.unclaimed_text import describe_unread, summarize_unclaimed
from reviewqueue.queries.page_queries import RunDetails, RunListFilters, RunListPage
from runs.continuations import versions_that_handed_back
from runs.models import Run
from runs.states import ContinuationStatus, InterruptStatus, RunStatus
from runs.unclaimed_continuations import UnclaimedRun, find_unclaimed


@dataclass(frozen=True, kw_only=True)
class ShownRun:
    """A run with the label, icon, tone and meaning of its status."""

    run: Run
    word: str
    icon: str
    tone: str
    meaning: str
    next: str = ""
    is_stranded: bool = False

    @property
    def notice_tone(self) -> str:
        return self.tone if self.tone in ("bad", "warn") else "act"


def _continuation_label(status: str) -> str:
    labels: dict[str, str] = {
        ContinuationStatus.CHECKING: _("being checked again"),
        ContinuationStatus.READY: _("ready to be claimed by a worker"),
        ContinuationStatus.LEASED: _("claimed by a worker"),
        ContinuationStatus.ACKNOWLEDGED: _("done; the run reached its next safe point"),
        ContinuationStatus.VOID: _("void"),
    }
    return labels[status]


def runs_context(found: RunListPage, asked: RunListFilters, *, reader: AbstractUser, now: datetime) -> dict[str, Any]:
    of = "me" if asked.mine else "stranded" if asked.stranded else ""
    kept = {"of": of, "status": asked.status, "agent": asked.agent}
    unclaimed = find_unclaimed(found.runs, now=now)
    return {
        "section": "runs",
        "now": now,
        "asked": asked,
        "rows": [_row(run, unclaimed.get(run.pk)) for run in found.runs],
        "statuses": [(status, _status_option(status)) for status in RunStatus.values],
        "agents": permissions.owned_agents(reader).order_by("slug").values_list("slug", flat=True),
        "lists": [
            (_("All runs"), _address(kept | {"of": ""}), not of),
            (_("Started for me"), _address(kept | {"of": "me"}), asked.mine),
            (_("Stranded"), _address(kept | {"of": "stranded"}), asked.stranded),
        ],
        "next_url": _address(kept | {"after": found.next}) if found.next else "",
        "empty": None if found.runs else _empty_list(asked),
    }


def _empty_list(asked: RunListFilters) -> EmptyState:
    everything = {"url": reverse("runs"), "button": _("Show all runs")}
    if asked.status or asked.agent:
        text = _("No run that you can see matches the filters.")
        return EmptyState(picture="no-match", heading=_("No matching runs"), text=text, **everything)
    if asked.stranded:
        text = _("Runs that can continue but that no worker claims are listed here.")
        return EmptyState(picture="none-waiting", heading=_("No stranded runs"), text=text, **everything)
    if asked.mine:
        text = _("Runs that agents start for you are listed here.")
        return EmptyState(picture="none-waiting", heading=_("No runs started for you"), text=text, **everything)
    text = _("Runs started for you, runs of your agents and runs with requests to your queues are listed here.")
    return EmptyState(picture="no-requests-yet", heading=_("No runs yet"), text=text)


def _address(asked: dict[str, str]) -> str:
    words = urlencode({name: value for name, value in asked.items() if value})
    return reverse("runs") + (f"?{words}" if words else "")


def _status_option(status: str) -> str:
    options: dict[str, str] = {
        RunStatus.RUNNING: _("Running"),
        RunStatus.WAITING: _("Waiting"),
        RunStatus.REVALIDATING: _("Revalidating"),
        RunStatus.READY: _("Ready"),
        RunStatus.BLOCKED: _("Blocked"),
        RunStatus.PAUSED: _("Paused"),
        RunStatus.CANCELLING: _("Cancelling"),
        RunStatus.COMPLETED: _("Completed"),
        RunStatus.FAILED: _("Failed"),
        RunStatus.CANCELLED: _("Cancelled"),
        RunStatus.EXPIRED: _("Expired"),
    }
    return options[status]


def _row(run: Any, unclaimed: UnclaimedRun | None) -> ShownRun:
    is_stranded = run.is_stranded or (unclaimed is not None and unclaimed.is_told)
    return replace(_shown(run), next=_what_is_next(run, unclaimed), is_stranded=is_stranded)


def _what_is_next(run: Any, unclaimed: UnclaimedRun | None) -> str | SafeString:
    """Return what the run waits for: an open request, a worker, or the resolution of its holds."""
    if run.status == RunStatus.WAITING:
        text = ngettext("{number} open request", "{number} open requests", run.open_waits)
        return text.format(number=run.open_waits)
    if run.is_stranded:
        text = _("{versions} code versions cannot read it") if run.handed_back else _("no worker can read it")
        return text.format(versions=run.handed_back)
    if run.status == RunStatus.BLOCKED:
        return ngettext("{number} open hold", "{number} open holds", run.open_holds).format(number=run.open_holds)
    return "" if unclaimed is None else summarize_unclaimed(unclaimed)


def _shown(run: Run) -> ShownRun:
    word, icon, tone, meaning = code_labels.run_label(run.status)
    if run.status == "running" and run.pause_asked_at is not None:
        word, icon, tone, meaning = _("pausing"), "pause", "warn", _("The run stops at its next safe point.")
    return ShownRun(run=run, word=word, icon=icon, tone=tone, meaning=meaning)


def run_context(screen: RunDetails, *, reader: AbstractUser, now: datetime) -> dict[str, Any]:
    run = screen.run
    calls = [(run.agent_id, effect.row_call) for effect in screen.effects]
    labels = labels_of([*calls, *((wait.agent_id, wait.row_proposal) for wait in screen.waits)])
    decisions = {decision.interrupt_id: decision for decision in screen.decisions}
    waits = []
    for wait in screen.waits:
        decision = decisions.get(wait.pk)
        word, icon = code_labels.closed_label(wait)
        waits.append(
            {
                "wait": wait,
                "title": request_heading_for_row(wait, wait.row_proposal, labels)[0],
                "queue": code_labels.queue_name(wait.queue),
                "then": code_labels.deadline_outcome_short(wait),
                "is_open": wait.status == InterruptStatus.WAITING,
                "word": word if decision is None else code_labels.done_label(decision, wait.kind),
                "icon": icon,
                "decision": decision,
            }
        )
    continuation = screen.continuation
    unread = versions_that_handed_back([run]).get(run.pk, [])
    actions = actions_for(reader, run, screen.effect_counts, screen.checkpoints)
    return {
        "section": "runs",
        "now": now,
        "screen": screen,
        "run": run,
        "shown": _shown(run),
        "actions": actions,
        "may_retag": any(action.verb == "retag" and not action.blocked for action in actions),
        "unclaimed": find_unclaimed([run], now=now).get(run.pk),
        "unread": unread,
        "unread_words": describe_unread(unread),
        "may_halt": screen.halt is None
        and run.ended_at is None
        and permissions.why_not_halt(reader, run.agent) is None,
        "may_lift": screen.halt is not None and permissions.why_not_lift(reader, run.agent) is None,
        "effects": effect_rows(screen.effects, run.agent, labels)[::-1],
        "unknown": screen.effect_counts.statuses.get("unknown", 0),
        "waits": waits[::-1],
        "holds": [(code_labels.hold_label(hold.kind), hold) for hold in screen.holds],
        "timeline": timeline_entries(screen.events, reader=reader, waits=screen.named_waits),
        "continuation_words": "" if continuation is None else _continuation_label(continuation.status),
        "last_checkpoint": screen.checkpoints[0] if screen.checkpoints else None,
    }
