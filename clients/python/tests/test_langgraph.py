"""The adapter for LangGraph, with LangGraph itself and the fake server."""

from __future__ import annotations

import contextlib
import operator
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt
from reviewqueue_client.adapters.langgraph import GraphAgent, ask
from reviewqueue_client.testing import FakeServer


class Asked(TypedDict, total=False):
    answers: Annotated[list[Any], operator.add]


class Killed(BaseException):
    """Ends the graph as a kill does, after LangGraph has recorded the first answer."""


def a_graph(*nodes: Any) -> Any:
    graph = StateGraph(Asked)
    for node in nodes:
        graph.add_node(node)
        graph.add_edge(START, node.__name__)
        graph.add_edge(node.__name__, END)
    return graph.compile(checkpointer=InMemorySaver())


def an_agent(graph: Any, **more: Any) -> GraphAgent:
    return GraphAgent(graph, first_input=lambda run: {}, result=lambda state: state["answers"], **more)


def question(name: str) -> dict[str, Any]:
    return {"title": name, "reason": "question", "queue": "purchasing", "input_schema": {"type": "string"}}


@pytest.fixture
def server() -> FakeServer:
    server = FakeServer()
    for key in ("first", "second"):
        server.answer(key, "answer", input=key)
    return server


def test_each_request_of_a_node_gets_its_own_answer_also_after_a_kill_between_them(server: FakeServer):
    kills = [Killed()]

    def both(state: Asked) -> Asked:
        first = ask("first", **question("First"))
        if kills:
            raise kills.pop()
        return {"answers": [first.input, ask("second", **question("Second")).input]}

    agent = an_agent(a_graph(both))
    with server.client() as client:
        with pytest.raises(Killed):
            client.run("PR-1").execute(agent)
        assert client.run("PR-1").execute(agent) == ["first", "second"]


def test_other_interrupts_of_a_node_get_their_own_answers_after_a_kill_between_them(server: FakeServer):
    kills = [Killed()]

    def both(state: Asked) -> Asked:
        first = interrupt(question("First"))
        if kills:
            raise kills.pop()
        return {"answers": [first["input"], interrupt(question("Second"))["input"]]}

    with server.client() as client:
        client.run("PR-1")
        worker = client.worker()
        worker.every_step(an_agent(a_graph(both)))
        while server.runs["PR-1"].status != "completed":
            with contextlib.suppress(Killed):
                worker.run_once(wait=0)
            for key, asked in server.runs["PR-1"].requests.items():
                if asked.status == "waiting":
                    server.answer(key, "answer", input=asked.asked["title"].lower())
    assert kills == []
    assert server.runs["PR-1"].result == ["first", "second"]


def test_parallel_requests_are_created_together(server: FakeServer):
    def left(state: Asked) -> Asked:
        return {"answers": [ask("first", **question("First")).input]}

    def right(state: Asked) -> Asked:
        return {"answers": [ask("second", title="Second", reason="question").input]}

    with server.client() as client:
        agent = an_agent(a_graph(left, right), defaults={"queue": "purchasing"})
        assert sorted(client.run("PR-1").execute(agent)) == ["first", "second"]


def test_an_interrupt_that_is_no_request_is_refused_with_the_way_out(server: FakeServer):
    def asks(state: Asked) -> Asked:
        return {"answers": [interrupt("May I?")]}

    with server.client() as client, pytest.raises(TypeError, match="question_of"):
        client.run("PR-1").execute(an_agent(a_graph(asks)))


def test_a_graph_without_a_checkpointer_is_refused():
    graph = StateGraph(Asked)
    graph.add_node("node", lambda state: {})
    graph.add_edge(START, "node")
    with pytest.raises(ValueError, match="checkpointer"):
        an_agent(graph.compile())
