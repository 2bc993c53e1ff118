"""OpenAI Agents SDK: tools with `needs_approval` become requests, and the run state continues with the answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from agents import Agent, RunConfig, Runner, RunState
from reviewqueue_client._async.run import AsyncRun
from reviewqueue_client.adapters.tool_approvals import (
    Pause,
    ToolApprovals,
    ToolCall,
    current_run,
    permit_of,
    refusal_of,
)
from reviewqueue_client.values import Answer

__all__ = ["AgentRunner", "current_run", "permit_of"]


class AgentRunner(ToolApprovals):
    """Executes an agent of the SDK until its end or until calls need an approval.

    ``first_input`` returns the input of a new run. ``result`` makes the run's result, a JSON value, of the final output.
    ``defaults``: members of every request, such as the queue. ``run_config``: of the SDK. The SDK cannot change the
    arguments of a call, so people approve or reject.
    """

    step = "openai-agents"
    verdicts = ["approve", "reject"]

    def __init__(
        self,
        agent: Agent[Any],
        *,
        first_input: Callable[[AsyncRun], Any],
        result: Callable[[Any], Any] = str,
        defaults: Mapping[str, Any] | None = None,
        run_config: RunConfig | None = None,
    ) -> None:
        super().__init__(defaults=defaults)
        self._agent, self._first_input, self._result, self._config = agent, first_input, result, run_config

    async def begin(self, run: AsyncRun) -> Any:
        return self._found(await Runner.run(self._agent, self._first_input(run), run_config=self._config))

    async def resume(self, pause: Pause, answers: Mapping[str, Answer]) -> Any:
        state = await RunState.from_string(self._agent, pause.state)
        for item in state.get_interruptions():
            answer = answers[_id_of(item)]
            if answer.approved:
                state.approve(item)
            else:
                state.reject(item, rejection_message=refusal_of(answer))
        return self._found(await Runner.run(self._agent, state, run_config=self._config))

    def _found(self, result: Any) -> Any:
        if not result.interruptions:
            return self._result(result.final_output)
        calls = [ToolCall(_id_of(item), item.name, json.loads(item.arguments or "{}")) for item in result.interruptions]
        return Pause(result.to_state().to_string(), calls)


def _id_of(item: Any) -> str:
    raw = item.raw_item
    found: str | None = raw.get("call_id") if isinstance(raw, dict) else getattr(raw, "call_id", None)
    if not found:
        raise TypeError(f"The call of {item.name} has no call_id, so its answer cannot be found again.")
    return found
