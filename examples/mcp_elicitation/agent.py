"""An agent that uses an MCP server, whose questions people answer: `python agent.py PR-1`.

Kill it and start it again as it is.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters
from reviewqueue_client import AsyncClient
from reviewqueue_client.adapters.mcp_elicitation import ElicitationRequests

PLANNER = StdioServerParameters(command=sys.executable, args=[str(Path(__file__).with_name("planner.py"))])


async def plan(reviews: AsyncClient, key: str) -> Any:
    defaults = {"title": f"Crew of {key}", "deadline_in": os.environ.get("DEADLINE", "P2D")}
    people = ElicitationRequests(reviews, server="crew-planner", key=key, queue="engineering", defaults=defaults)
    async with Client(PLANNER, elicitation_callback=people, mode=os.environ.get("MODE", "auto")) as planner:
        planned = await planner.call_tool("plan_crew", {"job": key})
        return planned.content[0].text


async def main(keys: list[str]) -> None:
    async with AsyncClient() as reviews:
        for key, outcome in zip(keys, await asyncio.gather(*(plan(reviews, key) for key in keys)), strict=True):
            print(json.dumps({key: outcome}), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
