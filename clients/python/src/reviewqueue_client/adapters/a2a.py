"""A2A: a task is `input-required` while people decide, and continues with their answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from a2a.auth.user import User
from a2a.helpers.proto_helpers import (
    get_message_text,
    new_data_part,
    new_task_from_user_message,
    new_text_message,
    new_text_part,
)
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers.request_handler import RequestHandler
from a2a.server.tasks import TaskUpdater
from a2a.types.a2a_pb2 import GetTaskRequest, Message, Role, SendMessageRequest, TaskState
from a2a.utils.errors import A2AError
from reviewqueue_client import exact_json
from reviewqueue_client._async.client import AsyncClient
from reviewqueue_client._async.run import AsyncRun, AsyncRunHandle
from reviewqueue_client.delivery import ENDED, read_cursor, write_cursor
from reviewqueue_client.errors import Refused, ReviewQueueError, RunEnded, Stopped, Unreachable

log = logging.getLogger("reviewqueue_client")

PREFIX = "a2a:"
#: Events after which a task has something to do or to report.
WAKING = frozenset({"continuation.ready", "run.completed", "run.failed", "run.cancelled", "run.expired"})
OPEN = ("waiting", "ready", "running", "revalidating", "blocked", "paused")
FINAL = frozenset(
    {
        TaskState.TASK_STATE_COMPLETED,
        TaskState.TASK_STATE_FAILED,
        TaskState.TASK_STATE_CANCELED,
        TaskState.TASK_STATE_REJECTED,
    }
)

Work = Callable[[AsyncRun, Message], Awaitable[Any]]


class _Owner(User):
    """The user whose task it is, by name."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def is_authenticated(self) -> bool:
        return bool(self._name)

    @property
    def user_name(self) -> str:
        return self._name


class ReviewExecutor(AgentExecutor):
    """Executes each task of an A2A agent as a run of Review Queue.

    ``function`` gets the run and the first message of the task, and is executed again from its beginning after each answer.
    Its result is the artifact of the task. Only the server's answers count: a message to a task that is `input-required`
    decides nothing.
    """

    def __init__(
        self, client: AsyncClient, function: Work, *, code_version: str = "a2a", lease_seconds: int = 30
    ) -> None:
        self._client, self._function = client, function
        self._code_version, self._lease_seconds = code_version, lease_seconds

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Work on a task until it ends or people must decide."""
        task, message = context.current_task, context.message
        if message is None or context.task_id is None or context.context_id is None:
            raise ValueError("A2A must give a message, a task and a context.")
        if task is None:
            await event_queue.enqueue_event(new_task_from_user_message(message))
        first = task.history[0] if task is not None and task.history else message
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        title = get_message_text(first).partition("\n")[0][:200] or "A2A task"
        owner = context.call_context.user.user_name
        run = await self._client.run(
            f"{PREFIX}{context.task_id}", title=title, code_version=self._code_version, metadata={"a2a_user": owner}
        )
        try:
            result = await self._execute(run, lambda leased: self._function(leased, first))
        except Stopped:
            await updater.requires_input(self._text(updater, await self._requests_of(run.id)))
        except RunEnded as ended:
            await self._end(updater, ended.status)
        else:
            await self._complete(updater, result)

    async def _execute(self, run: AsyncRunHandle, work: Callable[[AsyncRun], Awaitable[Any]]) -> Any:
        """Work on the run, again while the server cannot be reached. Any other error ends the run, as A2A ends the task."""
        failures = 0
        while True:
            try:
                return await run.execute(work, lease_seconds=self._lease_seconds, wait=False)
            except (Refused, Unreachable) as error:
                if error.is_final:
                    await self._cancel(run.id, "The A2A task has failed.")
                    raise
                failures += 1
                log.warning("the task of the run %s is tried again: %s", run.key, error)
                await asyncio.sleep(self._client.retries.delay(failures))
            except RunEnded:
                raise
            except Exception:
                await self._cancel(run.id, "The A2A task has failed.")
                raise

    async def _cancel(self, run: str, reason: str) -> dict[str, Any] | None:
        """Cancel the run. Returns it if it had ended before."""
        try:
            await self._client.call("POST", f"runs/{run}/cancel", {"reason": reason})
        except Refused:
            found: dict[str, Any] = await self._client.call("GET", f"runs/{run}")
            if found["status"] not in ENDED:
                raise
            return found
        return None

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Cancel the run of the task. A run that ended before keeps its end, which becomes the task's."""
        if context.task_id is None or context.context_id is None:
            raise ValueError("A2A must give a task and a context.")
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        key = quote(f"{PREFIX}{context.task_id}", safe="")
        for found in (await self._client.call("GET", f"runs?key={key}"))["runs"]:
            ended = await self._cancel(found["id"], "The client of the A2A agent cancelled the task.")
            if ended is not None and ended["status"] == "completed":
                await self._complete(updater, (ended["outcome"] or {}).get("result"))
                return
        await updater.cancel()

    async def continue_tasks(self, handler: RequestHandler, *, cursor: Path | str, every: float = 1.0) -> None:
        """Continue tasks when people have answered, without end. Run it beside the server of the agent.

        ``cursor``: the file that keeps the place in the event feed. ``every``: seconds between two looks.
        """
        failures, is_new = 0, True
        while True:
            try:
                if is_new:  # a killed process has left tasks without an executor
                    await self._continue_open(handler)
                    is_new = False
                await self.continue_once(handler, cursor=cursor)
                failures = 0
                await asyncio.sleep(every)
            except ReviewQueueError as error:
                if isinstance(error, Refused) and error.is_final:
                    raise
                failures += 1
                log.warning("tasks are not continued now: %s", error)
                await asyncio.sleep(self._client.retries.delay(failures))

    async def continue_once(self, handler: RequestHandler, *, cursor: Path | str) -> None:
        """Continue the tasks of what happened since the place of the cursor."""
        place, more = Path(cursor), True
        while more:
            page = await self._client.call("GET", f"events?after={read_cursor(place)}&limit=100")
            for id_ in dict.fromkeys(event["run"] for event in page["events"] if event["type"] in WAKING):
                await self._wake(handler, await self._client.call("GET", f"runs/{id_}"))
            if page["events"]:
                write_cursor(place, page["next"])
            more = page["more"]

    async def _continue_open(self, handler: RequestHandler) -> None:
        for status in OPEN:
            more = ""
            while True:
                page = await self._client.call("GET", f"runs?status={status}&limit=100{more}")
                for found in page["runs"]:
                    await self._wake(handler, await self._client.call("GET", f"runs/{found['id']}"))
                if page["next"] is None:
                    break
                more = f"&next={page['next']}"

    async def _wake(self, handler: RequestHandler, run: Mapping[str, Any]) -> None:
        """Send the task a message of its owner, as A2A continues a task. The message says nothing that counts."""
        if run["code_version"] != self._code_version or not run["key"].startswith(PREFIX):
            return
        task = run["key"].removeprefix(PREFIX)
        context = ServerCallContext(user=_Owner(run["metadata"].get("a2a_user", "")))
        try:
            stored = await handler.on_get_task(GetTaskRequest(id=task), context)
            if stored is None or stored.status.state in FINAL:
                return
            text = new_text_message("The request has changed.", role=Role.ROLE_USER)
            text.task_id, text.context_id = task, stored.context_id
            asked = SendMessageRequest(message=text)
            asked.configuration.return_immediately = True
            await handler.on_message_send(asked, context)
        except A2AError as error:
            log.warning("the task %s is not continued: %s", task, error)

    async def _requests_of(self, run: str) -> str:
        page = await self._client.call("GET", f"runs/{run}/interrupts?limit=100")
        lines = [
            f"{one.get('title', one['key'])}: {one.get('url', '')}"
            for one in page["interrupts"]
            if one["status"] == "waiting"
        ]
        return "\n".join(["Waiting for people.", *lines])

    @staticmethod
    def _text(updater: TaskUpdater, text: str) -> Message:
        return updater.new_agent_message([new_text_part(text)])

    async def _complete(self, updater: TaskUpdater, result: Any) -> None:
        plain = exact_json.without_decimals(result)
        part = new_text_part(plain) if isinstance(plain, str) else new_data_part(plain)
        await updater.add_artifact([part], artifact_id="result", name="result")
        await updater.complete()

    async def _end(self, updater: TaskUpdater, status: str) -> None:
        message = self._text(updater, status)
        await (updater.cancel(message) if status == "cancelled" else updater.failed(message))
