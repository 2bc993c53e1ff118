"""Restate: a handler waits for an awakeable in its own engine, and the answer resolves it once."""

from __future__ import annotations

import logging
from typing import Any, Unpack
from urllib.parse import quote

import httpx
from restate import Context, TerminalError
from restate.serde import BytesSerde
from reviewqueue_client import exact_json
from reviewqueue_client._async.client import AsyncClient
from reviewqueue_client._async.delivery import AsyncAnswers
from reviewqueue_client.delivery import Outcome
from reviewqueue_client.errors import Refused
from reviewqueue_client.values import Question

log = logging.getLogger("reviewqueue_client")


async def ask(
    context: Context, client: AsyncClient, name: str, *, code_version: str = "restate", **question: Unpack[Question]
) -> Outcome:
    """Create a request inside of a handler, and return its outcome.

    ``name`` is unique in the invocation. ``AnswerSender`` must run somewhere with the same ``code_version``.
    """
    awakeable, answer = context.awakeable(BytesSerde())
    key = f"{context.request().id}:{name}"

    async def create() -> str:
        answers = AsyncAnswers(client, code_version=code_version)
        try:
            asked = await answers.create({**question, "key": key}, target={"awakeable": awakeable})
        except Refused as refused:
            if refused.is_final:
                raise TerminalError(f"{refused.code}: {refused}") from refused
            raise
        return str(asked["interrupt"]["id"])

    await context.run_typed(f"ask:{name}", create)
    return Outcome.of(exact_json.loads(await answer))


class AnswerSender:
    """Resolves the awakeables of handlers that wait. Run one or more, in any process that reaches both servers.

    ``ingress``: the address of Restate's ingress. Restate uses the first resolution of an awakeable.
    """

    def __init__(self, client: AsyncClient, ingress: str, *, code_version: str = "restate") -> None:
        self.answers = AsyncAnswers(client, code_version=code_version)
        self._ingress = ingress.rstrip("/")

    async def send(self, target: Any, outcome: Outcome) -> None:
        """Send one outcome: the function for ``answers.deliver``. An awakeable that no handler waits for is logged."""
        address = f"{self._ingress}/restate/awakeables/{quote(target['awakeable'], safe='')}/resolve"
        headers = {"Content-Type": "application/octet-stream"}
        async with httpx.AsyncClient(timeout=30) as http:
            reply = await http.post(address, content=exact_json.dumps(outcome.as_json()), headers=headers)
        if reply.status_code == httpx.codes.NOT_FOUND:
            log.warning("no handler waits for the answer to %s; it is not sent", outcome.key)
            return
        reply.raise_for_status()

    async def run(self, *, cursor: str) -> None:
        """Send without end. ``cursor``: the file that keeps the place in the event feed."""
        await self.answers.deliver(self.send, cursor=cursor)
