"""An AG-UI agent whose interrupts people answer: `python agent.py PR-1`. Kill it and start it again as it is.

The agent is scripted and in this process. For a remote one, `turn` reads the events of its HTTP response.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

from ag_ui.core import (
    BaseEvent,
    Interrupt,
    ResumeEntry,
    RunAgentInput,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunStartedEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
    UserMessage,
)
from reviewqueue_client import AsyncClient, AsyncRun, RunEnded
from reviewqueue_client.adapters.ag_ui import read_run, resume_entries

sys.path.insert(0, str(Path(__file__).parents[1]))
from supplier import issue_purchase_order


async def buyer(asked: RunAgentInput) -> AsyncIterator[BaseEvent]:
    """Propose an order, and place it in the run that continues with the approval."""
    hoist = {"supplier": "S-17", "item": "Hoist", "amount": "184000.00"}
    of_run = {"thread_id": asked.thread_id, "run_id": asked.run_id}
    yield RunStartedEvent(**of_run)
    if not asked.resume:
        yield ToolCallStartEvent(tool_call_id="call_1", tool_call_name="issue_purchase_order")
        yield ToolCallArgsEvent(tool_call_id="call_1", delta=json.dumps(hoist))
        yield ToolCallEndEvent(tool_call_id="call_1")
        approval = Interrupt(id="int_1", reason="tool_call", message="Order the hoist?", tool_call_id="call_1")
        yield RunFinishedEvent(**of_run, outcome=RunFinishedInterruptOutcome(interrupts=[approval]))
        return
    [entry] = asked.resume
    result = "not ordered: no answer"
    if entry.status == "resolved" and entry.payload["approved"]:
        result = issue_purchase_order(asked.thread_id, entry.payload.get("editedArgs", hoist))
    elif entry.status == "resolved":
        result = entry.metadata["message"]
    yield RunFinishedEvent(**of_run, result=result)


async def turn(run: AsyncRun, name: str, resume: list[ResumeEntry] | None) -> dict[str, Any]:
    messages = [UserMessage(id="message-1", role="user", content=f"Order a hoist for {run.key}.")]
    return await read_run(buyer(RunAgentInput(thread_id=run.key, run_id=name, messages=messages, resume=resume)))


async def work(run: AsyncRun) -> Any:
    expiry = {"deadline_in": os.environ.get("DEADLINE", "P2D"), "on_expiry": {"do": "resume"}}
    defaults = {"title": f"Order {run.key}", "queue": "purchasing", **expiry}
    finished = await run.step("turn-1", partial(turn, run, "turn-1", None))
    number = 1
    while finished["interrupts"]:
        resume = await resume_entries(run, f"turn-{number}", finished, defaults=defaults, can_edit=True)
        number += 1
        finished = await run.step(f"turn-{number}", partial(turn, run, f"turn-{number}", resume))
    return finished["result"]


async def carry_out(client: AsyncClient, key: str) -> Any:
    try:
        return await (await client.run(key, title=f"Order {key}", code_version="ag-ui")).execute(work, lease_seconds=5)
    except RunEnded as ended:
        return f"not ordered: {ended.status}"


async def main(keys: list[str]) -> None:
    async with AsyncClient() as client:
        for key, outcome in zip(keys, await asyncio.gather(*(carry_out(client, key) for key in keys)), strict=True):
            print(json.dumps({key: outcome}), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
