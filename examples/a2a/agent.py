"""An A2A agent whose tasks wait for people, and its client: `python agent.py PR-1`. Kill it and start it again as it is."""

import asyncio
import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

import uvicorn
from a2a.client import Client, ClientConfig, create_client
from a2a.helpers.proto_helpers import get_data_parts, get_message_text, get_text_parts, new_text_message
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import DatabaseTaskStore
from a2a.types.a2a_pb2 import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Role,
    SendMessageRequest,
    Task,
    TaskState,
)
from reviewqueue_client import AsyncClient, AsyncRun
from reviewqueue_client.adapters.a2a import FINAL, ReviewExecutor
from sqlalchemy.ext.asyncio import create_async_engine
from starlette.applications import Starlette

sys.path.insert(0, str(Path(__file__).parents[1]))
from supplier import issue_purchase_order

HOIST = {"supplier": "S-17", "item": "Hoist", "amount": "184000.00"}


async def purchase(run: AsyncRun, message: Message) -> Any:
    key = get_message_text(message).removeprefix("Order ")
    question = {"title": f"Order {key}", "reason": "approval.action", "queue": "purchasing"}
    proposal = {"name": "issue_purchase_order", "arguments": HOIST}
    deadline = os.environ.get("DEADLINE", "P2D")
    answer = await run.ask("order", **question, proposal=proposal, deadline_in=deadline)
    if not answer.approved:
        return answer.message or "not ordered"
    return await run.effect(
        f"order:{key}",
        lambda call: issue_purchase_order(key, call),
        name="issue_purchase_order",
        permit=answer.permit,
        repeat="by_key",
    )


def agent_card(url: str) -> AgentCard:
    skill = AgentSkill(id="purchase", name="Purchase", description="Orders a hoist.", tags=["purchase"])
    return AgentCard(
        name="Buyer",
        description="Orders what people approve.",
        version="1.0.0",
        supported_interfaces=[AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version="1.0")],
        capabilities=AgentCapabilities(streaming=False),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain", "application/json"],
        skills=[skill],
    )


def result_of(task: Task) -> Any:
    if task.status.state != TaskState.TASK_STATE_COMPLETED:
        return f"not ordered: {get_message_text(task.status.message)}"
    parts = task.artifacts[0].parts
    return [*get_data_parts(parts), *get_text_parts(parts)][0]


async def order(client: Client, key: str) -> Any:
    """Find the task of this key, or create it, and wait until it has ended."""
    known = (await client.list_tasks(ListTasksRequest(context_id=f"purchase-{key}"))).tasks
    if known:
        task = known[0].id
    else:
        message = new_text_message(f"Order {key}", context_id=f"purchase-{key}", role=Role.ROLE_USER)
        async for event in client.send_message(SendMessageRequest(message=message)):
            task = event.task.id
    while (found := await client.get_task(GetTaskRequest(id=task))).status.state not in FINAL:
        await asyncio.sleep(0.3)
    return result_of(found)


async def main(keys: list[str]) -> None:
    listening = socket.create_server(("127.0.0.1", int(os.environ.get("PORT", "0"))))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    card = agent_card(url)
    async with AsyncClient() as reviews:
        executor = ReviewExecutor(reviews, purchase, lease_seconds=5)
        store = DatabaseTaskStore(create_async_engine("sqlite+aiosqlite:///a2a-tasks.db"))
        await store.initialize()
        handler = DefaultRequestHandler(agent_executor=executor, task_store=store, agent_card=card)
        routes = [*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/")]
        server = uvicorn.Server(uvicorn.Config(Starlette(routes=routes), log_level="warning"))
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        continuing = asyncio.create_task(executor.continue_tasks(handler, cursor="a2a-events"))
        client = await create_client(url, ClientConfig(streaming=False))
        for key, outcome in zip(keys, await asyncio.gather(*(order(client, key) for key in keys)), strict=True):
            print(json.dumps({key: outcome}), flush=True)
        continuing.cancel()
        server.should_exit = True
        await serving


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
