"""An agent of the OpenAI Agents SDK whose tool call people approve: `python agent.py PR-1`. Kill it and start it again.

The model is scripted, so that the example needs no key of a provider.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from agents import Agent, ModelResponse, RunConfig, Usage, function_tool
from agents.models.interface import Model
from agents.tool_context import ToolContext
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from reviewqueue_client import AsyncClient, RunEnded
from reviewqueue_client.adapters.openai_agents import AgentRunner, current_run, permit_of

sys.path.insert(0, str(Path(__file__).parents[1]))
import supplier as shop


@function_tool(needs_approval=True)
async def issue_purchase_order(context: ToolContext[Any], supplier: str, item: str, amount: str) -> str:
    """Issue a purchase order to a supplier."""
    run, permit = current_run(), permit_of(context.tool_call_id)

    def issue(call: dict[str, Any]) -> Any:
        return shop.issue_purchase_order(run.key, call)

    return json.dumps(
        await run.effect(f"order:{run.key}", issue, name="issue_purchase_order", permit=permit, repeat="by_key")
    )


class Scripted(Model):
    """A model that orders a hoist, and ends with the result of the tool."""

    async def get_response(self, system_instructions: Any, input: Any, *more: Any, **named: Any) -> ModelResponse:  # noqa: A002
        done = [it["output"] for it in input if isinstance(it, dict) and it.get("type") == "function_call_output"]
        hoist = json.dumps({"supplier": "S-17", "item": "Hoist", "amount": "184000.00"})
        text = ResponseOutputText(text=str(done[-1]) if done else "", type="output_text", annotations=[])
        said = ResponseOutputMessage(id="m1", content=[text], role="assistant", status="completed", type="message")
        call = ResponseFunctionToolCall(
            id="f1", call_id="call_1", type="function_call", name="issue_purchase_order", arguments=hoist
        )
        return ModelResponse(output=[said if done else call], usage=Usage(), response_id=None)

    def stream_response(self, *arguments: Any, **more: Any) -> Any:
        raise NotImplementedError


async def carry_out(client: AsyncClient, key: str) -> Any:
    expiry = {"deadline_in": os.environ.get("DEADLINE", "P2D"), "on_expiry": {"do": "resume"}}
    agent = AgentRunner(
        Agent(name="buyer", model=Scripted(), tools=[issue_purchase_order]),
        first_input=lambda run: f"Order a hoist for {run.key}.",
        defaults={"queue": "purchasing", "evidence": [{"label": "Request", "value": key}], **expiry},
        run_config=RunConfig(tracing_disabled=True),
    )
    try:
        handle = await client.run(key, title=f"Order {key}", code_version="openai-agents")
        return await handle.execute(agent, lease_seconds=5)
    except RunEnded as ended:
        return f"not ordered: {ended.status}"


async def main(keys: list[str]) -> None:
    async with AsyncClient() as client:
        for key, outcome in zip(keys, await asyncio.gather(*(carry_out(client, key) for key in keys)), strict=True):
            print(json.dumps({key: outcome}), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
