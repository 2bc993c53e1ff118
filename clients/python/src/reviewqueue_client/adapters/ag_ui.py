"""AG-UI 1.0: what interrupts a run of an AG-UI agent becomes requests, and the answers resume it in its next run."""

from __future__ import annotations

from collections.abc import AsyncIterable, Mapping
from datetime import datetime
from typing import Any, cast

from ag_ui.core import (
    BaseEvent,
    Interrupt,
    ResumeEntry,
    RunErrorEvent,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    ToolCallArgsEvent,
    ToolCallStartEvent,
)
from reviewqueue_client import exact_json
from reviewqueue_client._async.run import AsyncRun
from reviewqueue_client.errors import ReviewQueueError
from reviewqueue_client.values import Answer, Request

TEXT = {"type": "string", "title": "Answer", "minLength": 1}


class AgentError(ReviewQueueError):
    """The AG-UI agent reported an error, or its events ended before its run."""


async def read_run(events: AsyncIterable[BaseEvent]) -> dict[str, Any]:
    """Read the events of one run of the agent, as a JSON value for ``AsyncRun.step``.

    It has the `result`, the `interrupts` (none after a run that completed), and the `calls` of tools by their id.
    """
    calls: dict[str, dict[str, Any]] = {}
    async for event in events:
        if isinstance(event, ToolCallStartEvent):
            calls[event.tool_call_id] = {"name": event.tool_call_name, "arguments": ""}
        elif isinstance(event, ToolCallArgsEvent):
            calls[event.tool_call_id]["arguments"] += event.delta
        elif isinstance(event, RunErrorEvent):
            raise AgentError(event.message)
        elif isinstance(event, RunFinishedEvent):
            is_open = isinstance(event.outcome, RunFinishedInterruptOutcome)
            interrupts = event.outcome.interrupts if is_open else []
            read = {id_: call | {"arguments": _arguments(call["arguments"])} for id_, call in calls.items()}
            shown = [one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in interrupts]
            return {"result": event.result, "interrupts": shown, "calls": read}
    raise AgentError("The events of the agent ended without RUN_FINISHED.")


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
    capability `approveWithEdits`. Raises ``Stopped`` when the run is suspended for its requests.
    """
    interrupts = [Interrupt.model_validate(one) for one in finished["interrupts"]]
    asked = {one.id: _request_of(one, turn, finished["calls"], dict(defaults or {}), can_edit) for one in interrupts}
    answers = await run.ask_all(asked.values())
    return [_entry_of(one, asked[one.id], answers[asked[one.id]["key"]]) for one in interrupts]


def _request_of(
    interrupt: Interrupt, turn: str, calls: Mapping[str, Any], defaults: dict[str, Any], can_edit: bool
) -> Request:
    call = calls.get(interrupt.tool_call_id or "")
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


def _entry_of(interrupt: Interrupt, request: Request, answer: Answer) -> ResumeEntry:
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
    """Return the end of the interrupt as a deadline, if it is a time with an offset."""
    try:
        ends = datetime.fromisoformat(interrupt.expires_at or "")
    except ValueError:
        return {}
    return {} if ends.tzinfo is None else {"deadline": ends.isoformat()}


def _arguments(text: str) -> Any:
    return exact_json.loads((text or "{}").encode())
