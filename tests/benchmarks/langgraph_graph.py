"""The peer LangGraph: `interrupt()` holds and `Command(resume=...)` continues. Runs in an environment of its own.

`python langgraph_graph.py DATABASE_URL` reads lines `hold FIRST COUNT` and `resume FIRST COUNT` and answers each with the
seconds that it took. Eight threads; the library runs in the caller, without a server and without authentication.
"""

from __future__ import annotations

import base64
import random
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypedDict

from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool

THREADS = 8


class State(TypedDict, total=False):
    state: str
    answer: str


def text(size: int, seed: int) -> str:
    return base64.b64encode(random.Random(seed).randbytes(size))[:size].decode()


def ask(state: State) -> dict[str, Any]:
    return {"answer": interrupt({"request": text(1024, 7)})}


def main(address: str) -> None:
    options = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    with ConnectionPool(address, min_size=THREADS, max_size=THREADS, open=True, kwargs=options) as pool:
        saver = PostgresSaver(pool)
        saver.setup()
        graph = StateGraph(State)
        graph.add_node("ask", ask)
        graph.add_edge(START, "ask")
        graph.add_edge("ask", END)
        compiled = graph.compile(checkpointer=saver)

        def hold(number: int) -> None:
            config = {"configurable": {"thread_id": f"t{number}"}}
            compiled.invoke({"state": text(2048, number)}, config, durability="exit")

        def resume(number: int) -> None:
            config = {"configurable": {"thread_id": f"t{number}"}}
            if compiled.invoke(Command(resume="yes"), config, durability="exit")["answer"] != "yes":
                raise RuntimeError(f"run {number} continued without its answer")

        print("ready", flush=True)  # noqa: T201  the answer to the benchmark
        with ThreadPoolExecutor(THREADS) as threads:
            for line in sys.stdin:
                verb, first, count = line.split()
                began = time.monotonic()
                list(threads.map(hold if verb == "hold" else resume, range(int(first), int(first) + int(count))))
                print(time.monotonic() - began, flush=True)  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1])
