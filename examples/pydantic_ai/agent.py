"""An agent in Pydantic AI whose tool call people approve: `python agent.py PR-1`. Kill it and start it again as it is.

The model is scripted, so that the example needs no key of a provider.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from pydantic_ai import Agent, DeferredToolRequests, ModelResponse, RunContext, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel
from reviewqueue_client import AsyncClient, RunEnded
from reviewqueue_client.adapters.pydantic_ai import AgentRunner, current_run, permit_of

sys.path.insert(0, str(Path(__file__).parents[1]))
import supplier as shop


def scripted(messages: Any, info: Any) -> ModelResponse:
    """Order a hoist, and end with the result of the tool."""
    done = [part.content for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
    hoist = {"supplier": "S-17", "item": "Hoist", "amount": "184000.00"}
    call = ToolCallPart("issue_purchase_order", hoist, tool_call_id="call_1")
    return ModelResponse(parts=[TextPart(str(done[-1])) if done else call])


buyer = Agent(FunctionModel(scripted), output_type=[str, DeferredToolRequests])


@buyer.tool(requires_approval=True)
async def issue_purchase_order(context: RunContext[None], supplier: str, item: str, amount: str) -> str:
    """Issue a purchase order to a supplier."""
    run, permit = current_run(), permit_of(context.tool_call_id or "")

    def issue(call: dict[str, Any]) -> Any:
        return shop.issue_purchase_order(run.key, call)

    return json.dumps(
        await run.effect(f"order:{run.key}", issue, name="issue_purchase_order", permit=permit, repeat="by_key")
    )


async def carry_out(client: AsyncClient, key: str) -> Any:
    expiry = {"deadline_in": os.environ.get("DEADLINE", "P2D"), "on_expiry": {"do": "resume"}}
    agent = AgentRunner(
        buyer,
        first_input=lambda run: f"Order a hoist for {run.key}.",
        defaults={"queue": "purchasing", "evidence": [{"label": "Request", "value": key}], **expiry},
    )
    try:
        handle = await client.run(key, title=f"Order {key}", code_version="pydantic-ai")
        return await handle.execute(agent, lease_seconds=5)
    except RunEnded as ended:
        return f"not ordered: {ended.status}"


async def main(keys: list[str]) -> None:
    async with AsyncClient() as client:
        for key, outcome in zip(keys, await asyncio.gather(*(carry_out(client, key) for key in keys)), strict=True):
            print(json.dumps({key: outcome}), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
