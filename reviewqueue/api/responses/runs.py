"""Responses about runs: status, checkpoints, steps, timeline, lease and control."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ledger.exact_json import ABSENT
from reviewqueue.api.pagination import ListPage
from reviewqueue.api.response_serializers import (
    BOOLEAN,
    DATETIME,
    DIGEST,
    EXACT,
    FILE_DIGEST,
    INTEGER,
    OBJECT,
    TEXT,
    ResponseSerializer,
    choice,
    include,
    list_of,
    member,
    nullable,
    public_id,
    token,
)
from runs.leases import Instruction, current_instruction
from runs.models import CheckpointFile, Continuation, Event, Fact, Hold, Progress, Run
from runs.planted_requests import shown_key
from runs.states import Control, HoldKind, OnChange, RunStatus
from runs.unclaimed_continuations import UnclaimedRun

RUN_ID, CONTINUATION_ID = public_id("run"), public_id("con")
RUN_STATUS = choice(RunStatus.values)

NEXT_PAGE = "Cursor of the next page; null on the last page."

# --- leases and control -------------------------------------------------------------------------------------------------


class LeaseResponse(ResponseSerializer):
    """A lease, with the token that proves it (``runs.leases.Lease``)."""

    token = member(token("lse"), "Token that proves the lease. Send it in the `Run-Lease` header.")
    expires_at = member(DATETIME, "Time at which the lease ends without a heartbeat.")
    fence = member(INTEGER, "Fencing token: the number of the lease. Each later lease has a higher one.")


class StartedRunResponse(ResponseSerializer):
    """A run that was started, or found by its key (``start_run.Started``)."""

    id = member(RUN_ID, "Id of the run.", "run.public_id")
    key = member(TEXT, "Your key of the run.", "run.key")
    status = member(RUN_STATUS, "Status of the run.", "run.status")
    epoch = member(INTEGER, "Number of restarts, plus one.", "run.epoch")
    checkpoint = member(INTEGER, "Number of the last checkpoint.", "run.checkpoint_number")
    lease = member(
        nullable(LeaseResponse),
        "First lease of the run. Null if it was asked for none, has ended, or the run was claimed since.",
    )
    continuation = member(
        nullable(CONTINUATION_ID),
        "Id of the continuation that any worker can claim now; null if there is none.",
        lambda started: None if started.continuation is None else started.continuation.public_id,
    )


class RunStatusResponse(ResponseSerializer):
    """A run's status (``Run``)."""

    id = member(RUN_ID, "Id of the run.", "public_id")
    status = member(RUN_STATUS, "Status of the run.")


class RunControlResponse(RunStatusResponse):
    """What a control action led to (``Run``)."""

    epoch = member(INTEGER, "Number of restarts, plus one.")
    control = member(
        choice(Control.values),
        "What the worker must do at its next safe point: continue, pause or cancel.",
        lambda run: current_instruction(run).control,
    )
    pause_asked_by = member(
        nullable(TEXT),
        "Who requested the pause: person:..., agent:..., system:...; null without a pause.",
        lambda run: run.pause_asked_by or None,
    )
    pause_asked_at = member(nullable(DATETIME), "Time at which the pause was requested; null without a pause.")
    reason = member(
        nullable(TEXT),
        "Reason of the pause, or of the end of the run; null without one.",
        lambda run: run.pause_reason or run.ending_reason or None,
    )
    stop_by = member(nullable(DATETIME), "Time until which the worker must reach a safe point. Then its lease ends.")


class RetaggedRunResponse(RunControlResponse):
    """A run with its new code version (``Run``)."""

    code_version = member(TEXT, "Version of the agent's code that continues the run.")


class ControlResponse(ResponseSerializer):
    """What the worker must do, and why, if it must stop (``leases.Told``)."""

    control = member(
        choice(Control.values), "What the worker must do at its next safe point: continue, pause or cancel."
    )
    reason = member(TEXT, "Reason of the request to stop.", lambda told: _if_stopped(told, told.reason), optional=True)
    asked_by = member(
        TEXT,
        "Who requested the stop: person:..., agent:..., system:....",
        lambda told: _if_stopped(told, told.asked_by),
        optional=True,
    )
    stop_by = member(
        nullable(DATETIME),
        "Time until which the worker must reach a safe point. Then its lease ends.",
        lambda told: _if_stopped(told, told.stop_by),
        optional=True,
    )
    cancel_effects = member(
        list_of(TEXT),
        "Keys of effects that the worker must cancel outside now. It then reports their outcome.",
        lambda told: _if_stopped(told, told.cancel_effects or ABSENT),
        optional=True,
    )


def _if_stopped(told: Instruction, value: Any) -> Any:
    return ABSENT if told.control == Control.CONTINUE else value


class HeartbeatResponse(ResponseSerializer):
    """What a heartbeat returns (``LeaseHeartbeat``)."""

    expires_at = member(DATETIME, "Time at which the lease ends without a heartbeat.")
    _told = include(ControlResponse, "told")


@dataclass(frozen=True, kw_only=True)
class LeaseHeartbeat:
    """The extended lease, and what the worker must do."""

    expires_at: datetime
    told: Instruction


# --- checkpoints, facts, steps --------------------------------------------------------------------------------------------


class FileResponse(ResponseSerializer):
    """The file of a checkpoint (``CheckpointFile``)."""

    digest = member(FILE_DIGEST, "Digest of the file's bytes (sha256:, SHA-256).")
    size = member(INTEGER, "Size of the file, in bytes.")


@dataclass(frozen=True, kw_only=True)
class ReceivedFile:
    """A file, with the number of its checkpoint."""

    number: int
    file: CheckpointFile


class ReceivedFileResponse(ResponseSerializer):
    """A file that was received for a checkpoint (``ReceivedFile``)."""

    number = member(INTEGER, "Number of the checkpoint that the file belongs to.")
    _file = include(FileResponse, "file")


_FILE = member(
    FileResponse,
    "File of the checkpoint, if it has one. Its bytes are at `.../checkpoints/{number}/file`.",
    lambda checkpoint: checkpoint.file or ABSENT,
    optional=True,
)


class CheckpointMarkResponse(ResponseSerializer):
    """Number and digest of a checkpoint (``Checkpoint``)."""

    number = member(INTEGER, "Number of the checkpoint in the run, from 0.")
    digest = member(DIGEST, "Digest of the checkpoint's content (rq1:, SHA-256 over canonical JSON).")
    file = _FILE


class CommittedCheckpointResponse(ResponseSerializer):
    """A committed checkpoint, and what the worker must do (``commit_checkpoint.Reached``)."""

    _checkpoint = include(CheckpointMarkResponse, "checkpoint")
    _told = include(ControlResponse, "told")


class CheckpointContentResponse(ResponseSerializer):
    """A checkpoint with its state (``Checkpoint``)."""

    number = member(INTEGER, "Number of the checkpoint in the run, from 0.")
    step = member(TEXT, "Name of the step that ended here.")
    replay_from = member(TEXT, "Step that a replay begins with, if it is not the next one.")
    state = member(EXACT, "What your code needs to continue from here, exactly as it was sent.")
    format = member(TEXT, "Format of the state; `json` unless the worker named another.")
    digest = member(DIGEST, "Digest of the checkpoint's content (rq1:, SHA-256 over canonical JSON).")
    code_version = member(TEXT, "Version of the agent's code that committed the checkpoint.")
    file = _FILE


class FactValueResponse(ResponseSerializer):
    """A fact and its present value (``Fact``)."""

    name = member(TEXT, "Name of the fact.")
    value = member(EXACT, "Value that the run relies on, exactly as it was sent.")
    now = member(EXACT, "Value at the last check; null before the first check.", "last_value")


class FactResponse(FactValueResponse):
    """A fact as reviewers see it (``Fact``)."""

    checked_at = member(nullable(DATETIME), "Time of the last check; null before the first.")
    on_change = member(
        choice(OnChange.values),
        "What happens when the fact has changed: `replan` (the agent plans again), `renew` (the interrupts are asked "
        "again), `note` (the change is only reported).",
    )


@dataclass(frozen=True, kw_only=True)
class CheckpointDetail:
    """A checkpoint with its facts."""

    checkpoint: Any
    facts: Iterable[Fact]


class CheckpointResponse(ResponseSerializer):
    """A checkpoint with its state and facts (``CheckpointDetail``)."""

    _content = include(CheckpointContentResponse, "checkpoint")
    created_at = member(DATETIME, "Time at which the checkpoint was committed.", "checkpoint.created_at")
    facts = member(list_of(FactResponse), "Facts that the rest of the run relies on.")


class JudgedFactsResponse(ResponseSerializer):
    """What the reported facts mean for the run (``reconcile_facts.Judged``)."""

    control = member(
        choice(["continue", "refresh", "replan", "renew"]),
        "`continue`; `refresh`: a credential is not valid, so renew and report it before an effect begins; `replan` or "
        "`renew`: the run went back and this lease has ended.",
    )
    changed = member(list_of(FactValueResponse), "Facts whose value differs from the one that the run relies on.")


class StepResponse(ResponseSerializer):
    """A recorded step (``StepResult``)."""

    name = member(TEXT, "Name of the step, chosen by the worker.")
    place = member(INTEGER, "Number of the step after the checkpoint, from 1.")
    result = member(EXACT, "Recorded result of the step. It counts, whatever was sent later.")
    recorded_at = member(DATETIME, "Time at which the step was recorded.")


class StepListResponse(ResponseSerializer):
    """A page of the recorded steps (``StepPage``)."""

    after = member(INTEGER, "Number of the checkpoint after which the steps were recorded.")
    steps = member(list_of(StepResponse), "Steps, in the order in which they were recorded.", "page.rows")
    next = member(nullable(TEXT), NEXT_PAGE, "page.next")


@dataclass(frozen=True, kw_only=True)
class StepPage:
    """A page of the steps recorded after a checkpoint."""

    after: int
    page: ListPage[Any]


class RecordedStepResponse(ResponseSerializer):
    """A step that was recorded now or before (``record_step.Recorded``)."""

    _step = include(StepResponse, "step")
    replayed = member(BOOLEAN, "Whether an earlier call recorded the step.")
    _told = include(ControlResponse, "told")


# --- a run and its lists --------------------------------------------------------------------------------------------------


class RunSummaryResponse(ResponseSerializer):
    """A run in a list (``Run``)."""

    id = member(RUN_ID, "Id of the run.", "public_id")
    key = member(TEXT, "Your key of the run.", shown_key)
    title = member(TEXT, "One line that people read.")
    status = member(RUN_STATUS, "Status of the run.")
    agent = member(TEXT, "Slug of the agent.", "agent.slug")
    initiator = member(
        nullable(TEXT),
        "Person who started the run, by e-mail address; null if no person did.",
        lambda run: None if run.initiator is None else run.initiator.get_username(),
    )
    parent = member(
        nullable(RUN_ID),
        "Id of the parent run; null without one.",
        lambda run: None if run.parent is None else run.parent.public_id,
    )
    epoch = member(INTEGER, "Number of restarts, plus one.")
    checkpoint = member(INTEGER, "Number of the last checkpoint.", "checkpoint_number")
    code_version = member(
        TEXT, "Version of the agent's code. The run is offered to workers of the same version, or that accept it."
    )
    metadata = member(OBJECT, "Your own small object.")
    created_at = member(DATETIME, "Time at which the run was started.")
    ended_at = member(nullable(DATETIME), "Time at which the run ended; null while it is live.")
    expires_at = member(
        nullable(DATETIME), "Time at which an unclaimed run expires; null while something else decides its end."
    )


class RunListResponse(ResponseSerializer):
    """A page of runs (``ListPage``)."""

    runs = member(list_of(RunSummaryResponse), "Runs, newest first.", "rows")
    next = member(nullable(TEXT), NEXT_PAGE)


class EndingResponse(ResponseSerializer):
    """The end that was requested for a run and is in progress (``Run``)."""

    to = member(RUN_STATUS, "Status that the run will end with.", "ending")
    reason = member(TEXT, "Reason of the end.", "ending_reason")


class PauseResponse(ResponseSerializer):
    """The pause of a run (``Run``)."""

    asked_at = member(DATETIME, "Time at which the pause was requested.", "pause_asked_at")
    asked_by = member(TEXT, "Who requested the pause: person:..., agent:..., system:....", "pause_asked_by")
    reason = member(TEXT, "Reason of the pause.", "pause_reason")


class CurrentLeaseResponse(ResponseSerializer):
    """The lease that a worker holds on a run (``Run``)."""

    expires_at = member(DATETIME, "Time at which the lease ends without a heartbeat.", "lease_until")
    fence = member(INTEGER, "Fencing token: the number of the lease. Each later lease has a higher one.")


class UnclaimedResponse(ResponseSerializer):
    """Since when a run waits for a worker (``UnclaimedRun``)."""

    since = member(DATETIME, "Time since which any matching worker can claim the run.")
    is_late = member(
        BOOLEAN,
        "Whether that is longer than it should take: ten minutes, or a day for a run of `POST asks`.",
        "is_told",
    )
    handed_back_by = member(
        list_of(TEXT), "Code versions that could not read the checkpoint; an empty text: a worker that named none."
    )


class HoldResponse(ResponseSerializer):
    """Why a run cannot continue, and who can change that (``Hold``)."""

    kind = member(choice(HoldKind.values), "Kind of the hold.")
    subject = member(TEXT, "What the hold is about, such as an effect's key.")
    owner = member(TEXT, "Group of people who can lift the hold.", "owner.name")
    reason = member(TEXT, "Reason of the hold.")
    opened_at = member(DATETIME, "Time at which the hold began.")


class ProgressResponse(ResponseSerializer):
    """The progress of the last heartbeat (``Progress``)."""

    text = member(TEXT, "What the worker does.")
    done = member(nullable(INTEGER), "Number of steps done; null if the worker did not say.")
    of = member(nullable(INTEGER), "Number of steps in all; null if the worker did not say.")
    spent = member(TEXT, "Cost so far, in a unit of the agent's own.")
    at = member(DATETIME, "Time of the heartbeat.")


class RunOutcomeResponse(ResponseSerializer):
    """How a run ended (``Outcome``)."""

    kind = member(RUN_STATUS, "Status that the run ended with.")
    result = member(EXACT, "Result or error that the worker ended the run with.")


@dataclass(frozen=True, kw_only=True)
class RunDetail:
    """A run with what belongs to it now."""

    run: Run
    continuation: Continuation | None
    unclaimed: UnclaimedRun | None
    holds: Iterable[Hold]
    progress: Progress | None
    outcome: Any
    file: CheckpointFile | None


class RunDetailResponse(ResponseSerializer):
    """A run with its lease, holds, progress and outcome (``RunDetail``)."""

    _run = include(RunSummaryResponse, "run")
    ending = member(
        nullable(EndingResponse),
        "The end that was requested and is in progress; null without one.",
        lambda detail: detail.run if detail.run.ending else None,
    )
    pause = member(
        nullable(PauseResponse),
        "The pause; null without one.",
        lambda detail: detail.run if detail.run.pause_asked_at else None,
    )
    lease = member(
        nullable(CurrentLeaseResponse),
        "The lease that a worker holds; null while no worker holds one.",
        lambda detail: detail.run if detail.run.lease_until else None,
    )
    continuation = member(
        nullable(CONTINUATION_ID),
        "Id of the open continuation; null without one.",
        lambda detail: None if detail.continuation is None else detail.continuation.public_id,
    )
    unclaimed = member(
        nullable(UnclaimedResponse), "Since when the run waits for a worker; null while something else is missing."
    )
    holds = member(list_of(HoldResponse), "Why the run cannot continue.")
    progress = member(nullable(ProgressResponse), "Progress of the last heartbeat; null without one.")
    outcome = member(nullable(RunOutcomeResponse), "How the run ended; null while it is live.")
    file = member(nullable(FileResponse), "File of the last checkpoint; null without one.")


# --- timeline -------------------------------------------------------------------------------------------------------------


class EventResponse(ResponseSerializer):
    """An event of a run's timeline (``Event`` or ``RedactedEvent``)."""

    seq = member(INTEGER, "Number of the event in the run's timeline, from 1.")
    type = member(TEXT, "Type of the event.")
    actor = member(TEXT, "Who did it: person:..., agent:..., system:...; for an agent's key only `person`.")
    at = member(DATETIME, "Time of the event.")
    refs = member(OBJECT, "Ids, keys and numbers of what the event is about.")
    prev = member(nullable(TEXT), "Digest of the event before, which shows a later change; null for an agent's key.")
    digest = member(nullable(TEXT), "Digest of the event, which shows a later change; null for an agent's key.")


class TimelineResponse(ResponseSerializer):
    """A page of a run's timeline (``ListPage``)."""

    events = member(list_of(EventResponse), "Events, oldest first.", "rows")
    next = member(nullable(TEXT), NEXT_PAGE)


#: What an event may hold of an answer. An agent gets answers with a claim only.
_OF_AN_ANSWER = frozenset({"verdict", "digest", "outcome", "attachment", "size", "media_type"})


@dataclass(frozen=True, kw_only=True)
class RedactedEvent:
    """An event as an agent may read it: not what the answer is, nor who gave it.

    The digests are left out too: they cover the answer, which is short enough to be guessed.
    """

    seq: int
    type: str
    actor: str
    at: datetime
    refs: dict[str, Any]
    prev: None = None
    digest: None = None


def redact_event(event: Event) -> RedactedEvent:
    """Return the event as its agent may read it."""
    by_person = event.actor.startswith("person:")
    refs = {name: value for name, value in event.refs.items() if not (by_person and name in _OF_AN_ANSWER)}
    actor = "person" if by_person else event.actor
    return RedactedEvent(seq=event.seq, type=event.type, actor=actor, at=event.at, refs=refs)


# --- kill switch, deploy gate ---------------------------------------------------------------------------------------------


class EffectInFlightResponse(ResponseSerializer):
    """An effect that was begun before the halt (``Effect``)."""

    run = member(RUN_ID, "Id of the run.", "scope")
    key = member(TEXT, "Key of the effect.")
    name = member(TEXT, "Name of the call.")


@dataclass(frozen=True, kw_only=True)
class HaltState:
    """Whether agents are halted, and which of their effects are in flight."""

    agents: list[str]
    halted: bool
    effects_under_way: Iterable[Any] = ()


class HaltResponse(ResponseSerializer):
    """Whether agents are halted (``HaltState``)."""

    agents = member(list_of(TEXT), "Slugs of the agents.")
    halted = member(BOOLEAN, "Whether the agents are halted now.")
    effects_under_way = member(
        list_of(EffectInFlightResponse), "Effects that were begun before the halt and have no outcome yet."
    )


class StrandedVersionResponse(ResponseSerializer):
    """Open runs of one code version that the new version would leave behind (``LeftBehind``)."""

    code_version = member(TEXT, "Version of the runs' code.")
    runs = member(INTEGER, "Number of runs.")
    waiting = member(INTEGER, "Number of these runs that wait for people.")
    oldest_at = member(DATETIME, "Start of the oldest of these runs.")


class UnclaimedVersionResponse(ResponseSerializer):
    """Runs of one agent and code version that no worker claims (``OfVersion``)."""

    agent = member(TEXT, "Slug of the agent.")
    code_version = member(TEXT, "Version that a worker must have or accept to claim the runs.")
    runs = member(INTEGER, "Number of runs that no worker claims.")
    taking_back = member(
        INTEGER, "Number of these runs whose effects must be compensated, which a worker of any version can do."
    )
    oldest_at = member(DATETIME, "Time since which the oldest of these runs waits for a worker.")
    handed_back_by = member(
        list_of(TEXT), "Code versions that could not read the checkpoint; an empty text: a worker that named none."
    )


@dataclass(frozen=True, kw_only=True)
class StrandedRuns:
    """The runs that a deploy would leave behind, and those that no worker claims, by code version."""

    code_version: str
    accepts: list[str]
    stranded: list[Any]
    unclaimed: list[Any]


class StrandedRunsResponse(ResponseSerializer):
    """What a deploy would leave behind (``StrandedRuns``)."""

    code_version = member(TEXT, "The version to be deployed.")
    accepts = member(list_of(TEXT), "Older versions whose checkpoints it can read.")
    runs = member(
        INTEGER,
        "Number of runs that would be left behind.",
        lambda found: sum(version.runs for version in found.stranded),
    )
    stranded = member(
        list_of(StrandedVersionResponse),
        "By code version, runs that no worker of the new version could continue or that it has handed back, oldest "
        "first.",
    )
    unclaimed = member(
        list_of(UnclaimedVersionResponse),
        "Runs that can continue now and that no worker has claimed for minutes (runs of `POST asks`: for a day), oldest "
        "first.",
    )
