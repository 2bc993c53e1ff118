"""Tasks of an A2A agent on the fake server, through the SDK's own request handler. Skipped without its library."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from reviewqueue_client.testing import FakeServer

pytest.importorskip("a2a.server.routes")
types = pytest.importorskip("a2a.types.a2a_pb2")
helpers = pytest.importorskip("a2a.helpers.proto_helpers")
handlers = pytest.importorskip("a2a.server.request_handlers")
stores = pytest.importorskip("a2a.server.tasks")
contexts = pytest.importorskip("a2a.server.context")
a2a = pytest.importorskip("reviewqueue_client.adapters.a2a")
CARD = types.AgentCard(name="Buyer", description="Buys.", version="1")


class Server(FakeServer):
    """Lists runs by key, and records which were cancelled."""

    def __init__(self) -> None:
        super().__init__()
        self.cancelled: list[str] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix("/api/v1/")
        if path == "runs" and request.method == "GET":
            found = [run.id for run in self.runs.values() if run.key == request.url.params["key"]]
            return httpx.Response(200, json={"runs": [{"id": id_} for id_ in found], "next": None})
        if path.endswith("/cancel"):
            self.cancelled.append(path)
            return httpx.Response(200, json={"status": "cancelled"})
        return await super().handle_async_request(request)


class Agent:
    """The agent, whose function asks for one approval."""

    def __init__(self, function: Any) -> None:
        self.server = Server()
        self.executor = a2a.ReviewExecutor(self.server.async_client(), function)
        store = stores.InMemoryTaskStore()
        self.handler = handlers.DefaultRequestHandler(agent_executor=self.executor, task_store=store, agent_card=CARD)

    async def send(self, text: str, task: str = "") -> Any:
        message = helpers.new_text_message(text, context_id="c-1", role=types.Role.ROLE_USER)
        message.task_id = task
        request = types.SendMessageRequest(message=message)
        return await asyncio.wait_for(self.handler.on_message_send(request, contexts.ServerCallContext()), 60)

    async def ended(self, task: str) -> Any:
        [run] = self.server.runs.values()
        shown = {"key": run.key, "code_version": "a2a", "metadata": run.metadata}
        await self.executor._wake(self.handler, shown)
        found = None
        while found is None or found.status.state not in a2a.FINAL:
            found = await self.handler.on_get_task(types.GetTaskRequest(id=task), contexts.ServerCallContext())
            await asyncio.sleep(0)
        return found


async def buy(run: Any, message: Any) -> Any:
    text = helpers.get_message_text(message)
    answer = await run.ask("order", title=text, proposal={"name": "order", "arguments": {"what": text}})
    return {"ordered": text} if answer.approved else "not ordered"


def test_a_task_is_input_required_until_people_answer_and_its_client_cannot():
    async def journey() -> None:
        agent = Agent(buy)
        task = await agent.send("Order a hoist")
        assert task.status.state == types.TaskState.TASK_STATE_INPUT_REQUIRED
        assert "http://fake/interrupts/order" in helpers.get_message_text(task.status.message)
        again = await agent.send("approve", task.id)
        assert again.status.state == types.TaskState.TASK_STATE_INPUT_REQUIRED
        agent.server.answer("order")
        done = await agent.ended(task.id)
        assert done.status.state == types.TaskState.TASK_STATE_COMPLETED
        assert helpers.get_data_parts(done.artifacts[0].parts) == [{"ordered": "Order a hoist"}]

    asyncio.run(journey())


def test_a_task_whose_client_cancels_it_cancels_its_run():
    async def journey() -> None:
        agent = Agent(buy)
        task = await agent.send("Order a hoist")
        cancelled = await agent.handler.on_cancel_task(
            types.CancelTaskRequest(id=task.id), contexts.ServerCallContext()
        )
        assert cancelled.status.state == types.TaskState.TASK_STATE_CANCELED
        assert agent.server.cancelled == ["runs/run_1/cancel"]

    asyncio.run(journey())


def test_an_error_of_the_function_fails_the_task_and_cancels_its_run():
    async def breaks(run: Any, message: Any) -> Any:
        raise RuntimeError("broken")

    async def journey() -> None:
        agent = Agent(breaks)
        with pytest.raises(RuntimeError, match="broken"):
            await agent.send("Order a hoist")
        assert agent.server.cancelled == ["runs/run_1/cancel"]

    asyncio.run(journey())
