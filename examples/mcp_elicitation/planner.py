"""An MCP server that plans a crew, and asks its client's user for what it does not know."""

from datetime import date
from typing import Annotated

from mcp.server import MCPServer
from mcp.server.elicitation import AcceptedElicitation, ElicitationResult
from mcp.server.mcpserver import Elicit, Resolve
from pydantic import BaseModel, Field

server = MCPServer("crew-planner")


class Crew(BaseModel):
    day: date = Field(title="First day on site")
    people: int = Field(title="People", ge=2, le=6)


async def ask_for_the_crew(job: str) -> Elicit[Crew]:
    return Elicit(f"Who installs {job}?", Crew)


@server.tool()
async def plan_crew(job: str, crew: Annotated[ElicitationResult[Crew], Resolve(ask_for_the_crew)]) -> str:
    """Plan the crew of a job."""
    if isinstance(crew, AcceptedElicitation):
        return f"{crew.data.people} people from {crew.data.day}"
    return f"not planned: {crew.action}"


if __name__ == "__main__":
    server.run("stdio")
