"""What the adapters of agent frameworks share: tool calls that need an approval become requests of one run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from reviewqueue_client._async.run import AsyncRun
from reviewqueue_client.values import Answer, Request

_RUN: ContextVar[AsyncRun] = ContextVar("reviewqueue_async_run")


def current_run() -> AsyncRun:
    """Return the run whose agent is executed, for effects and progress in tools."""
    return _RUN.get()


def permit_of(tool_call_id: str) -> str | None:
    """Return the permit that the approval of this tool call left, for the effect that makes the call."""
    given = current_run().answers.get(tool_call_id)
    return None if given is None else given.permit


@dataclass(frozen=True)
class ToolCall:
    """A tool call for which people are asked. Its id is the key of the request."""

    id: str
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Pause:
    """An agent that waits for people: its state as text, and the calls. Stored in the run's checkpoint."""

    state: str
    calls: list[ToolCall]


class ToolApprovals(ABC):
    """A function for ``AsyncRunHandle.execute`` or an asynchronous worker. Subclasses say how their framework pauses."""

    step: ClassVar[str]
    verdicts: ClassVar[list[str]]

    def __init__(self, *, defaults: Mapping[str, Any] | None = None) -> None:
        self._defaults = dict(defaults or {})

    async def __call__(self, run: AsyncRun) -> Any:
        """Execute the agent. Raises ``Stopped`` when the run is suspended for its requests."""
        token = _RUN.set(run)
        try:
            found: Any
            if run.step_name == self.step:
                found = Pause(run.state["state"], [ToolCall(**call) for call in run.state["calls"]])
            else:
                found = await self.begin(run)
            while isinstance(found, Pause):
                run.step_name, run.state = (
                    self.step,
                    {"state": found.state, "calls": [vars(call) for call in found.calls]},
                )
                answers = await run.ask_all(self.request_of(call) for call in found.calls)
                found = await self.resume(found, answers)
            return found
        finally:
            _RUN.reset(token)

    def request_of(self, call: ToolCall) -> Request:
        """Return the request for a call."""
        proposal = {"name": call.name, "arguments": call.arguments}
        own = {"key": call.id, "reason": "approval.action", "title": f"Call {call.name}", "verdicts": self.verdicts}
        return cast(Request, {**self._defaults, **own, "proposal": proposal})

    @abstractmethod
    async def begin(self, run: AsyncRun) -> Any:
        """Start the agent. Returns a ``Pause`` or the result."""

    @abstractmethod
    async def resume(self, pause: Pause, answers: Mapping[str, Answer]) -> Any:
        """Continue the agent with the answers by the id of the call. Returns a ``Pause`` or the result."""


def refusal_of(answer: Answer) -> str:
    """Return the text for the model about a call that was not approved."""
    if answer.verdict is None:
        return "No person approved this call before its deadline."
    return answer.message or "A person rejected this call."
