"""Elicitations without an MCP server: how often a run is looked at, and which addresses are refused."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

mcp_types = pytest.importorskip("mcp_types")
mcp_elicitation = pytest.importorskip("reviewqueue_client.adapters.mcp_elicitation")
CLIENT: Any = None


def test_a_run_that_is_not_answered_is_looked_at_with_pauses(monkeypatch: pytest.MonkeyPatch):
    slept: list[float] = []

    async def outcome(run: str, *, wait: int) -> Any:
        if len(slept) < 20:
            return None
        raise mcp_elicitation.Refused(404, {"retryable": False})

    async def create(_: Any) -> Any:
        return {"run": {"id": "r-1"}}

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    requests = mcp_elicitation.ElicitationRequests(CLIENT, server="shop", key="task-1", queue="questions")
    monkeypatch.setattr(requests._answers, "outcome", outcome)
    monkeypatch.setattr(requests._answers, "create", create)
    monkeypatch.setattr(mcp_elicitation, "sleep", sleep)
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    params = mcp_types.ElicitRequestFormParams(message="Who?", requested_schema=schema)
    asyncio.run(requests(None, params))
    assert slept[0] == pytest.approx(0.1)
    assert slept[-1] == 2.0
    assert len(slept) == 20


@pytest.mark.parametrize("url", ["https://[", "https://[::1", "http://example.com/", "javascript:alert(1)"])
def test_what_is_not_an_address_is_refused(url: str):
    requests = mcp_elicitation.ElicitationRequests(CLIENT, server="shop", key="task-1", queue="questions")
    params = mcp_types.ElicitRequestURLParams(message="Open", url=url, elicitation_id="e-1")
    refused = asyncio.run(requests(None, params))
    assert refused.code == mcp_types.INVALID_PARAMS
