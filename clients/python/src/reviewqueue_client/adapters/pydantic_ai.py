"""Pydantic AI: deferred tools become requests, and the message history continues with the answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ToolApproved, ToolDenied
from pydantic_ai.messages import ModelMessagesTypeAdapter
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
    """Executes an agent until its end or until tools are deferred. `DeferredToolRequests` must be one of its output types.

    ``first_input`` returns the prompt of a new run. ``result`` makes the run's result, a JSON value, of the output.
    ``defaults``: members of every request, such as the queue. ``deps``: of the agent. Tools that are executed elsewhere
    (`CallDeferred`) are refused with ``TypeError``.
    """

    step = "pydantic-ai"
    verdicts = ["approve", "edit", "reject"]

    def __init__(
        self,
        agent: Agent[Any, Any],
        *,
        first_input: Callable[[AsyncRun], Any],
        result: Callable[[Any], Any] = str,
        defaults: Mapping[str, Any] | None = None,
        deps: Any = None,
    ) -> None:
        super().__init__(defaults=defaults)
        self._agent, self._first_input, self._result, self._deps = agent, first_input, result, deps

    async def begin(self, run: AsyncRun) -> Any:
        return self._found(await self._agent.run(self._first_input(run), deps=self._deps))

    async def resume(self, pause: Pause, answers: Mapping[str, Answer]) -> Any:
        approvals = {key: _approval_of(answer) for key, answer in answers.items()}
        history = ModelMessagesTypeAdapter.validate_json(pause.state)
        results = DeferredToolResults(approvals=approvals)
        return self._found(
            await self._agent.run(message_history=history, deferred_tool_results=results, deps=self._deps)
        )

    def _found(self, result: Any) -> Any:
        if not isinstance(result.output, DeferredToolRequests):
            return self._result(result.output)
        if result.output.calls:
            names = ", ".join(call.tool_name for call in result.output.calls)
            raise TypeError(f"Only tools that need an approval can be deferred (got {names}).")
        calls = [ToolCall(it.tool_call_id, it.tool_name, it.args_as_dict()) for it in result.output.approvals]
        return Pause(result.all_messages_json().decode(), calls)


def _approval_of(answer: Answer) -> Any:
    if not answer.approved:
        return ToolDenied(refusal_of(answer))
    return ToolApproved(override_args=answer.arguments)
