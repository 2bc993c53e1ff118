"""LangGraph and LangChain: every interrupt of a graph becomes a request, and its answer resumes the thread once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import asdict
from typing import Any, Unpack, cast

from langgraph.types import Command, Interrupt, interrupt
from reviewqueue_client import exact_json
from reviewqueue_client._sync.run import Run, approved_call
from reviewqueue_client.adapters import langchain_requests
from reviewqueue_client.values import Answer, Question, Request

_RUN: ContextVar[Run] = ContextVar("reviewqueue_run")
_ASKED_BY_KEY = "reviewqueue_request"


def current_run() -> Run:
    """Return the run whose graph is executed, for effects and progress in nodes and tools."""
    return _RUN.get()


def ask(key: str, **question: Unpack[Question]) -> Answer:
    """Return the answer to the request with this key; without one, interrupt the graph until people answer.

    To be used in a node or a tool. LangGraph executes it again from its beginning when the answer is there. ``key`` is
    unique in the thread: number the keys of a loop.
    """
    given = current_run().answers.get(key)
    if given is None:
        interrupt({_ASKED_BY_KEY: {**question, "key": key}})
        raise RuntimeError(
            f"The interrupt {key} was resumed without its answer. Only GraphAgent can resume this graph."
        )
    return given


def permit_for(arguments: Mapping[str, Any]) -> str | None:
    """Return the permit of an approved tool call with these arguments, for the effect that makes the call."""
    run, wanted = current_run(), exact_json.loads(exact_json.dumps(dict(arguments)))  # fractions as in answers
    for answer in run.answers.values():
        if answer.permit is not None:
            approved = approved_call(run.client, run.id, answer)
            if approved is not None and approved["arguments"] == wanted:
                return answer.permit
    return None


class GraphAgent:
    """A function for ``RunHandle.execute`` or a worker: carries a compiled graph to its end or to its next interrupts.

    ``graph`` must have a checkpointer that outlives the process. The id of the run is the id of the thread.
    ``first_input`` returns the input of a new thread; ``result`` makes the result of the run, a JSON value, of the final
    state. ``defaults``: members that requests leave out, such as the queue. ``config`` and ``context`` are LangGraph's.

    Interrupts come from ``ask``, or from LangChain's ``HumanInTheLoopMiddleware``. The value of any other `interrupt()` must
    be the members of a request, or ``question_of`` must return them for it; it is resumed with the answer as a dictionary.
    Raises ``TypeError`` for other values.
    """

    def __init__(
        self,
        graph: Any,
        *,
        first_input: Callable[[Run], Any],
        result: Callable[[Any], Any] | None = None,
        defaults: Mapping[str, Any] | None = None,
        question_of: Callable[[Any], Mapping[str, Any]] | None = None,
        config: Mapping[str, Any] | None = None,
        context: Any = None,
    ) -> None:
        if not graph.checkpointer:
            raise ValueError("The graph must be compiled with a checkpointer.")
        self._graph, self._first_input, self._result = graph, first_input, result
        self._defaults, self._question_of = dict(defaults or {}), question_of
        self._config, self._context = dict(config or {}), context

    def __call__(self, run: Run) -> Any:
        """Execute the graph. Raises ``Stopped`` when the run is suspended for its interrupts."""
        token = _RUN.set(run)
        try:
            return self._carry_on(run)
        finally:
            _RUN.reset(token)

    def _carry_on(self, run: Run) -> Any:
        configurable = {**self._config.get("configurable", {}), "thread_id": run.id}
        thread = self._config | {"configurable": configurable}
        found = self._graph.get_state(thread)
        if found.created_at is None:
            self._invoke(self._first_input(run), thread)
        elif found.next:
            # Also where an interrupt is open. After a kill LangGraph can list one that has its answer already, and would
            # give the same answer to the next interrupt of the node.
            self._invoke(None, thread)
        while (found := self._graph.get_state(thread)).next:
            requests = {one.id: self._requests_of(one) for one in found.interrupts}
            answers = run.ask_all([request for several in requests.values() for request in several])
            resume = {
                one.id: self._resume_of(one.value, requests[one.id], answers)
                for one in found.interrupts
                if not _is_asked_by_key(one.value)
            }
            self._invoke(Command(resume=resume) if resume else None, thread)
        return None if self._result is None else self._result(found.values)

    def _invoke(self, step: Any, thread: Mapping[str, Any]) -> None:
        self._graph.invoke(step, thread, context=self._context)

    def _requests_of(self, asked: Interrupt) -> list[Request]:
        value = asked.value
        if _is_asked_by_key(value):
            members = [value[_ASKED_BY_KEY]]
        elif self._question_of is not None:
            members = [{**self._question_of(value), "key": asked.id}]
        elif langchain_requests.is_known(value):
            schema = getattr(asked, "response_schema", None)
            members = langchain_requests.requests_of(asked.id, value, schema)
        elif isinstance(value, Mapping) and "title" in value:
            members = [{**value, "key": asked.id}]
        else:
            raise TypeError(
                f"The value of an interrupt must be the members of a request, with a title (got {value!r:.100}). "
                "Give GraphAgent a question_of for other values."
            )
        return [cast(Request, {**self._defaults, **one}) for one in members]

    def _resume_of(self, value: Any, requests: list[Request], answers: Mapping[str, Answer]) -> Any:
        given = [answers[request["key"]] for request in requests]
        if self._question_of is None and langchain_requests.is_known(value):
            return langchain_requests.resume_of(value, [it["proposal"]["name"] for it in requests], given)
        return asdict(given[0])


def _is_asked_by_key(value: Any) -> bool:
    return isinstance(value, Mapping) and _ASKED_BY_KEY in value
