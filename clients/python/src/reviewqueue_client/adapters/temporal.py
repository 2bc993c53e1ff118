"""Temporal: a workflow waits in its own engine, and the answer is signalled to it once.

Import this module in the file of a workflow inside of `with workflow.unsafe.imports_passed_through():`.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any, Unpack

from reviewqueue_client import exact_json
from reviewqueue_client._async.client import AsyncClient
from reviewqueue_client._async.delivery import AsyncAnswers
from reviewqueue_client.delivery import Outcome
from reviewqueue_client.errors import Refused
from reviewqueue_client.values import Question
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

log = logging.getLogger("reviewqueue_client")

ACTIVITY = "reviewqueue_ask"
#: Time of one attempt to create a request. Temporal tries again without end.
ATTEMPT = timedelta(minutes=2)


async def ask(name: str, **question: Unpack[Question]) -> Outcome:
    """Create a request inside of a workflow, and return its outcome.

    ``name`` is unique in the workflow and its continuations (`continue_as_new`). The worker needs the activity of
    ``AskActivity``, and ``AnswerSender`` must run somewhere.
    """
    info = workflow.info()
    key = f"{info.first_execution_run_id}:{name}"
    received: list[str] = []
    workflow.set_signal_handler(key, received.append)  # a repeated signal is another element, which is not used
    target = {"workflow": info.workflow_id, "first_run": info.first_execution_run_id, "signal": key}
    request = exact_json.dumps({"request": {**question, "key": key}, "target": target}).decode()
    await workflow.execute_activity(ACTIVITY, request, start_to_close_timeout=ATTEMPT)
    await workflow.wait_condition(lambda: bool(received))
    return Outcome.of(exact_json.loads(received[0].encode()))


class AskActivity:
    """The activity that creates the requests: give ``AskActivity(client).create`` to the worker."""

    def __init__(self, client: AsyncClient, *, code_version: str = "temporal") -> None:
        self._answers = AsyncAnswers(client, code_version=code_version)

    @activity.defn(name=ACTIVITY)
    async def create(self, text: str) -> str:
        """Create the request, or find it. Returns the id of its interrupt."""
        asked = exact_json.loads(text.encode())
        try:
            created = await self._answers.create(asked["request"], target=asked["target"])
        except Refused as refused:
            raise ApplicationError(str(refused), refused.code, non_retryable=refused.is_final) from refused
        return str(created["interrupt"]["id"])


class AnswerSender:
    """Signals outcomes to the workflows that wait for them. Run one or more, in any process that reaches both servers."""

    def __init__(self, client: AsyncClient, engine: Client, *, code_version: str = "temporal") -> None:
        self.answers = AsyncAnswers(client, code_version=code_version)
        self._engine = engine

    async def send(self, target: Any, outcome: Outcome) -> None:
        """Signal one outcome: the function for ``answers.deliver``. A workflow that has ended gets nothing."""
        handle = self._engine.get_workflow_handle(target["workflow"], first_execution_run_id=target["first_run"])
        try:
            await handle.signal(target["signal"], exact_json.dumps(outcome.as_json()).decode())
        except RPCError as error:
            if error.status != RPCStatusCode.NOT_FOUND:
                raise
            log.warning("the workflow %s has ended; the answer to %s is not sent", target["workflow"], outcome.key)

    async def run(self, *, cursor: str) -> None:
        """Send without end. ``cursor``: the file that keeps the place in the event feed."""
        await self.answers.deliver(self.send, cursor=cursor)
