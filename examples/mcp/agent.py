"""A purchase whose agent asks people through the MCP server: `python agent.py PR-1`. Kill it and start it again as it is.

`MCP_URL` is the address of a server with streamable HTTP; without it the example starts one of its own, with stdio.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters

sys.path.insert(0, str(Path(__file__).parents[1]))
from supplier import issue_purchase_order

NAMES = ("REVIEW_QUEUE", "REVIEW_QUEUE_KEY", "PYTHONPATH")
OWN_SERVER = StdioServerParameters(
    command=sys.executable,
    args=["-m", "reviewqueue_client.adapters.mcp_server", "--queue", "purchasing"],
    env={name: os.environ[name] for name in NAMES if name in os.environ},
)


async def carry_out(client: Client, key: str) -> Any:
    hoist = {"supplier": "S-17", "item": "Hoist", "amount": "184000.00"}
    request = {"key": key, "title": f"Order {key}", "call": {"name": "issue_purchase_order", "arguments": hoist}}
    deadline = {"deadline_in": os.environ.get("DEADLINE", "P2D")}
    await call(client, "ask_person", request | deadline)
    answer = {"status": "waiting"}
    while answer["status"] == "waiting":
        answer = await call(client, "check_answer", {"key": key})
    if answer.get("verdict") in ("approve", "edit"):
        return issue_purchase_order(key, answer["arguments"])
    return answer.get("message") or f"not ordered: {answer['status']}"


async def call(client: Client, tool: str, arguments: dict[str, Any]) -> Any:
    result = await client.call_tool(tool, arguments)
    if result.is_error:
        raise RuntimeError(result.content[0].text)
    return result.structured_content


async def main(keys: list[str]) -> None:
    async with Client(os.environ.get("MCP_URL") or OWN_SERVER) as client:
        for key, outcome in zip(keys, await asyncio.gather(*(carry_out(client, key) for key in keys)), strict=True):
            print(json.dumps({key: outcome}), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
