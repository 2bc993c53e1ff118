"""DBOS: a workflow waits in its own engine, and the answer is sent to it once."""

from __future__ import annotations

from typing import Any, Unpack, cast

from dbos import DBOS, DBOSClient, StepOptions
from reviewqueue_client._async.client import AsyncClient
from reviewqueue_client._async.delivery import AsyncAnswers
from reviewqueue_client._sync.client import Client
from reviewqueue_client._sync.delivery import Answers
from reviewqueue_client.delivery import Outcome
from reviewqueue_client.errors import Refused
from reviewqueue_client.values import Question, Request

#: Seconds of one `recv`; a workflow without a message calls it again.
WAIT = 24 * 3600.0
#: Attempts to create a request, each with the retries of the client.
ATTEMPTS = 20


def ask(client: Client, name: str, *, code_version: str = "dbos", **question: Unpack[Question]) -> Outcome:
    """Create a request inside of a workflow, and return its outcome.

    ``name`` is unique in the workflow. The key of the request is the workflow's id and this name, so a recovered workflow
    finds its request. ``AnswerSender`` must run somewhere with the same ``code_version``.
    """
    workflow, key, request = _request_of(name, question)

    def create() -> str:
        asked = Answers(client, code_version=code_version).create(request, target={"workflow": workflow, "topic": key})
        return str(asked["interrupt"]["id"])

    DBOS.run_step(_options(name), create)
    while (sent := DBOS.recv(key, timeout_seconds=WAIT)) is None:
        pass
    return Outcome.of(sent)


async def ask_async(
    client: AsyncClient, name: str, *, code_version: str = "dbos", **question: Unpack[Question]
) -> Outcome:
    """Do the same as ``ask`` in an asynchronous workflow."""
    workflow, key, request = _request_of(name, question)

    async def create() -> str:
        answers = AsyncAnswers(client, code_version=code_version)
        asked = await answers.create(request, target={"workflow": workflow, "topic": key})
        return str(asked["interrupt"]["id"])

    await DBOS.run_step_async(_options(name), create)
    while (sent := await DBOS.recv_async(key, timeout_seconds=WAIT)) is None:
        pass
    return Outcome.of(sent)


def _request_of(name: str, question: Question) -> tuple[str, str, Request]:
    workflow = cast(str, DBOS.workflow_id)
    key = f"{workflow}:{name}"
    return workflow, key, cast(Request, {**question, "key": key})


def _options(name: str) -> StepOptions:
    """Return the options of the step: a server that cannot be reached is tried again, a refusal is not."""
    return {
        "name": f"ask:{name}",
        "retries_allowed": True,
        "max_attempts": ATTEMPTS,
        "should_retry": lambda error: not (isinstance(error, Refused) and error.is_final),
    }


class AnswerSender:
    """Sends outcomes to the workflows that wait for them. Run one or more, in any process that reaches both databases.

    ``engine``: a ``DBOSClient`` of the system database. DBOS drops a second message with the same idempotency key, which is
    the id of the outcome.
    """

    def __init__(self, client: Client, engine: DBOSClient, *, code_version: str = "dbos") -> None:
        self.answers = Answers(client, code_version=code_version)
        self._engine = engine

    def send(self, target: Any, outcome: Outcome) -> None:
        """Send one outcome: the function for ``answers.deliver``."""
        self._engine.send(target["workflow"], outcome.as_json(), topic=target["topic"], idempotency_key=outcome.id)

    def run(self, *, cursor: str) -> None:
        """Send without end. ``cursor``: the file that keeps the place in the event feed."""
        self.answers.deliver(self.send, cursor=cursor)
