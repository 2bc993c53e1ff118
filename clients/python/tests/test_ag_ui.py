"""Events and interrupts of AG-UI agents, without an agent. Skipped without its library."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from reviewqueue_client import Answer

core = pytest.importorskip("ag_ui.core")
ag_ui = pytest.importorskip("reviewqueue_client.adapters.ag_ui")


def read(*events: Any) -> Any:
    async def all_of() -> AsyncIterator[Any]:
        for event in events:
            yield event

    return asyncio.run(ag_ui.read_run(all_of()))


def finished() -> Any:
    return core.RunFinishedEvent(thread_id="t-1", run_id="r-1")


def chunk(delta: str | None = None, *, id_: str | None = None, name: str | None = None) -> Any:
    return core.ToolCallChunkEvent(tool_call_id=id_, tool_call_name=name, delta=delta)


class Run:
    def __init__(self, answers: dict[str, Answer]) -> None:
        self.answers, self.asked = answers, []  # type: ignore[var-annotated]

    async def ask_all(self, requests: Any) -> Any:
        self.asked = [request["key"] for request in requests]
        return {key: self.answers[key] for key in self.asked}


def entries(run: Run, *interrupts: dict[str, Any]) -> list[str]:
    read_ = {"interrupts": list(interrupts), "calls": {}}
    return [entry.status for entry in asyncio.run(ag_ui.resume_entries(run, "turn-1", read_))]


def test_chunks_of_a_call_are_its_start_and_its_arguments():
    calls = read(chunk('{"a":', id_="c-1", name="order"), chunk("1}"), chunk(id_="c-2", name="pay"), finished())[
        "calls"
    ]
    assert calls == {"c-1": {"name": "order", "arguments": {"a": 1}}, "c-2": {"name": "pay", "arguments": {}}}


def test_arguments_of_a_call_that_did_not_start_are_an_error():
    for event in (core.ToolCallArgsEvent(tool_call_id="c-9", delta="{}"), chunk("{}"), chunk("{}", id_="c-9")):
        with pytest.raises(ag_ui.AgentError):
            read(event, finished())


def test_arguments_that_are_not_json_are_an_error_that_names_the_call():
    for text in ('{"amount": 1', "{'amount': 1}", '{"amount": NaN}', "[1] [2]"):
        with pytest.raises(ag_ui.AgentError, match="arguments of the call 'c-1' must be JSON"):
            read(chunk(text, id_="c-1", name="order"), finished())


def test_an_interrupt_about_an_unknown_call_is_an_error_and_is_not_asked():
    run = Run({})
    with pytest.raises(ag_ui.AgentError):
        entries(run, {"id": "i-1", "reason": "tool_call", "toolCallId": "c-9"})
    assert run.asked == []


def test_an_interrupt_that_has_expired_without_an_answer_is_cancelled():
    past = {"id": "i-1", "reason": "input", "expiresAt": "2020-01-01T00:00:00Z"}
    open_ = {"id": "i-2", "reason": "input", "expiresAt": "2999-01-01T00:00:00Z"}
    given = {"verdict": "answer", "input": "yes"}
    answer = Answer.of("turn-1:i-2", given | {"key": "turn-1:i-2"})
    run = Run({"turn-1:i-2": answer})
    assert entries(run, past, open_) == ["cancelled", "resolved"]
    assert run.asked == ["turn-1:i-2"]
    assert entries(Run({"turn-1:i-1": answer}), past) == ["resolved"]
