"""AG-UI 1.0: what interrupts a run of an AG-UI agent becomes requests, and the answers resume it in its next run."""

from __future__ import annotations

from collections.abc import AsyncIterable, Mapping
from datetime import UTC, datetime
from typing import Any, cast

from ag_ui.core import (
    BaseEvent,
    Interrupt,
    ResumeEntry,
    RunErrorEvent,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    ToolCallArgsEvent,
    ToolCallChunkEvent,
    ToolCallStartEvent,
)
from reviewqueue_client import exact_json
from reviewqueue_client._async.run import AsyncRun
from reviewqueue_client.errors import ReviewQueueError
from reviewqueue_client.values import Answer, Request

TEXT = {"type": "string", "title": "Answer", "minLength": 1}


class AgentError(ReviewQueueError):
    """The AG-UI agent reported an error, or its events are not those of a complete run."""


async def read_run(events: AsyncIterable[BaseEvent]) -> dict[str, Any]:
    """Read the events of one run of the agent, as a JSON value for ``AsyncRun.step``.

    It has the `result`, the `interrupts` (none after a run that completed), and the `calls` of tools by their id.
    """
    calls: dict[str, dict[str, Any]] = {}
    last = ""  # the call of the chunks, which name it in the first one only
    async for event in events:
        if isinstance(event, ToolCallStartEvent):
            calls[event.tool_call_id] = {"name": event.tool_call_name, "arguments": ""}
        elif isinstance(event, ToolCallArgsEvent):
            _call_of(calls, event.tool_call_id)["arguments"] += event.delta
        elif isinstance(event, ToolCallChunkEvent):
            last = event.tool_call_id or last
            if last not in calls and event.tool_call_name:
                calls[last] = {"name": event.tool_call_name, "arguments": ""}
            _call_of(calls, last)["arguments"] += event.delta or ""
        elif isinstance(event, RunErrorEvent):
            raise AgentError(event.message)
        elif isinstance(event, RunFinishedEvent):
            is_open = isinstance(event.outcome, RunFinishedInterruptOutcome)
            interrupts = event.outcome.interrupts if is_open else []
            read = {id_: call | {"arguments": _arguments(id_, call["arguments"])} for id_, call in calls.items()}
            shown = [one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in interrupts]
            return {"result": event.result, "interrupts": shown, "calls": read}
    raise AgentError("The events of the agent ended without RUN_FINISHED.")


def _call_of(calls: Mapping[str, Any], id_: str) -> Any:
    if not id_ or id_ not in calls:
        raise AgentError(f"The agent names the call of a tool {id_!r}, which it did not start.")
    return calls[id_]


async def resume_entries(
    run: AsyncRun,
    turn: str,
    finished: Mapping[str, Any],
    *,
    defaults: Mapping[str, Any] | None = None,
    can_edit: bool = False,
) -> list[ResumeEntry]:
    """Ask people about every interrupt of what ``read_run`` returned. Returns the `resume` of the next run of the agent.

    ``turn`` names the agent's run, because ids of interrupts are unique in it only. ``can_edit``: the agent has the
    capability `approveWithEdits`. An interrupt whose `expiresAt` is past is `cancelled` without an answer.

    Raises ``Stopped`` when the run is suspended for its requests, and ``AgentError`` if an interrupt is about a call that
    the agent did not start in this run.
    """
    interrupts = [Interrupt.model_validate(one) for one in finished["interrupts"]]
    asked = {one.id: _request_of(one, turn, finished["calls"], dict(defaults or {}), can_edit) for one in interrupts}
    open_ = [asked[one.id] for one in interrupts if asked[one.id]["key"] in run.answers or not _has_expired(one)]
    answers = await run.ask_all(open_)
    return [_entry_of(one, asked[one.id], answers.get(asked[one.id]["key"])) for one in interrupts]


def _request_of(
    interrupt: Interrupt, turn: str, calls: Mapping[str, Any], defaults: dict[str, Any], can_edit: bool
) -> Request:
    call = None if interrupt.tool_call_id is None else _call_of(calls, interrupt.tool_call_id)
    request: dict[str, Any] = {"message": interrupt.message or ""}
    request |= {} if {"deadline", "deadline_in"} & defaults.keys() else _deadline_of(interrupt)
    if call is not None:
        verdicts = ["approve", "edit", "reject"] if can_edit else ["approve", "reject"]
        request |= {"reason": "approval.action", "title": f"Call {call['name']}"} | defaults
        request |= {"proposal": call, "verdicts": verdicts}
    else:
        request |= {"reason": "question", "title": f"Question: {interrupt.reason}"[:200]} | defaults
        request |= {"input_schema": interrupt.response_schema or TEXT}
    return cast(Request, request | {"key": f"{turn}:{interrupt.id}"})


def _entry_of(interrupt: Interrupt, request: Request, answer: Answer | None) -> ResumeEntry:
    if answer is None:
        return ResumeEntry(interrupt_id=interrupt.id, status="cancelled")
    metadata = {"message": answer.message} if answer.message else None
    if answer.verdict is None or answer.verdict == "decline":
        return ResumeEntry(interrupt_id=interrupt.id, status="cancelled", metadata=metadata)
    payload: Any = answer.input
    if "proposal" in request:
        payload = {"approved": answer.approved}
        payload |= {"editedArgs": answer.arguments} if answer.verdict == "edit" else {}
    payload = exact_json.without_decimals(payload)
    return ResumeEntry(interrupt_id=interrupt.id, status="resolved", payload=payload, metadata=metadata)


def _deadline_of(interrupt: Interrupt) -> dict[str, str]:
    ends = _end_of(interrupt)
    return {} if ends is None else {"deadline": ends.isoformat()}


def _has_expired(interrupt: Interrupt) -> bool:
    ends = _end_of(interrupt)
    return ends is not None and ends <= datetime.now(UTC)


def _end_of(interrupt: Interrupt) -> datetime | None:
    """Return the end of the interrupt, if it is a time with an offset."""
    try:
        ends = datetime.fromisoformat(interrupt.expires_at or "")
    except ValueError:
        return None
    return None if ends.tzinfo is None else ends


def _arguments(id_: str, text: str) -> Any:
    try:
        return exact_json.loads((text or "{}").encode())
    except ValueError as error:
        raise AgentError(f"The arguments of the call {id_!r} must be JSON: {error}.") from None
