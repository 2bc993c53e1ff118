"""An MCP server with two tools: `ask_person` creates a request, `check_answer` returns what became of it.

Run `reviewqueue-mcp` (stdio), or `reviewqueue-mcp --transport streamable-http --port 8765`.
"""

from __future__ import annotations

import argparse
import json
from typing import Annotated, Any
from urllib.parse import quote

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field
from reviewqueue_client._async.client import AsyncClient
from reviewqueue_client._async.delivery import AsyncAnswers
from reviewqueue_client.errors import Refused, Unreachable
from reviewqueue_client.values import Request

INSTRUCTIONS = (
    "Ask people with ask_person before an action that needs an approval, or when only a person knows the answer. Then call "
    "check_answer until the status is no longer waiting. Perform an approved call exactly with the returned arguments."
)
TEXT = {"type": "string", "title": "Answer", "minLength": 1}


def create_server(client: AsyncClient, *, queue: str, code_version: str = "mcp") -> MCPServer[Any]:
    """Return the server. ``queue``: of requests that name none."""
    answers = AsyncAnswers(client, code_version=code_version)
    server: MCPServer[Any] = MCPServer("review-queue", instructions=INSTRUCTIONS, version="0.1.0")

    @server.tool()
    async def ask_person(
        key: Annotated[str, Field(description="Your name for it, such as order-PR-1. The same key finds it again.")],
        title: Annotated[str, Field(description="One line that says what people decide.")],
        message: Annotated[str, Field(description="What people must know to decide, in Markdown.")] = "",
        choices: Annotated[list[str] | None, Field(description="The possible answers, if they are few.")] = None,
        call: Annotated[
            dict[str, Any] | None,
            Field(description='The exact call that needs an approval: {"name": ..., "arguments": {...}}.'),
        ] = None,
        input_schema: Annotated[dict[str, Any] | None, Field(description="JSON Schema of the answer.")] = None,
        deadline_in: Annotated[str, Field(description="ISO 8601 duration, such as PT4H.")] = "",
    ) -> dict[str, Any]:
        """Ask a person for an approval of a call, or for an answer. Returns at once; people decide later."""
        request: dict[str, Any] = {"key": key, "title": title, "message": message, "queue": queue}
        if call is not None:
            if choices or input_schema:
                raise ToolError("Give either call, or choices or input_schema: an approval has no other answer.")
            request |= {"reason": "approval.action", "proposal": call}
        else:
            schema = {"type": "string", "title": "Answer", "enum": choices} if choices else input_schema or TEXT
            request |= {"reason": "question", "input_schema": schema}
        request |= {"deadline_in": deadline_in} if deadline_in else {}
        try:
            asked = await answers.create(Request(**request))  # type: ignore[typeddict-item]
        except (Refused, Unreachable) as problem:
            raise ToolError(str(problem)) from None
        return {"key": key, "status": asked["interrupt"]["status"], "url": asked["url"]}

    @server.tool()
    async def check_answer(
        key: Annotated[str, Field(description="The key of the request.")],
        wait_seconds: Annotated[int, Field(ge=0, le=30, description="How long to wait for the answer.")] = 20,
    ) -> dict[str, Any]:
        """Return the answer to a request: waiting, answered, expired, cancelled or failed, with the verdict and input."""
        try:
            found = (await client.call("GET", f"runs?key={quote(key, safe='')}"))["runs"]
            if not found:
                raise ToolError(f"There is no request with the key {key}. Create it with ask_person.")
            outcome = await answers.outcome(found[0]["id"], wait=wait_seconds)
        except (Refused, Unreachable) as problem:
            raise ToolError(str(problem)) from None
        if outcome is None:
            return {"key": key, "status": "waiting"}
        shown: dict[str, Any] = {"key": key, "status": outcome.status}
        if outcome.answer is not None:
            given = outcome.answer
            shown |= {"verdict": given.verdict, "input": given.input, "arguments": outcome.arguments}
            shown |= {"message": given.message, "decided_by": given.decided_by}
        plain: dict[str, Any] = json.loads(json.dumps(shown, default=str))  # a fraction as text keeps its digits
        return plain

    return server


def main() -> None:
    """Run the server. The address and the key are read from `REVIEW_QUEUE` and `REVIEW_QUEUE_KEY`."""
    parser = argparse.ArgumentParser(description="MCP server of Review Queue")
    parser.add_argument("--queue", default="questions", help="queue of the requests (%(default)s)")
    parser.add_argument("--transport", choices=("stdio", "streamable-http"), default="stdio")
    parser.add_argument("--host", default="127.0.0.1", help="of streamable-http (%(default)s)")
    parser.add_argument("--port", type=int, default=8765, help="of streamable-http (%(default)s)")
    chosen = parser.parse_args()
    server = create_server(AsyncClient(), queue=chosen.queue)
    if chosen.transport == "stdio":
        server.run("stdio")
    else:
        server.run("streamable-http", host=chosen.host, port=chosen.port)


if __name__ == "__main__":
    main()
