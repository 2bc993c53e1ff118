"""A purchase in LangGraph: `python agent.py PR-1 PR-2`. Kill it whenever you like and start it again as it is."""

import json
import os
import sqlite3
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from reviewqueue_client import Client, RunEnded
from reviewqueue_client.adapters.langgraph import GraphAgent, ask, current_run

sys.path.insert(0, str(Path(__file__).parents[1]))
from supplier import issue_purchase_order


class Purchase(TypedDict, total=False):
    request: str
    offer: dict[str, Any]
    outcome: Any


def find_offer(purchase: Purchase) -> Purchase:
    return {"offer": {"supplier": "S-17", "item": "Hoist", "amount": "184000.00"}}


def order(purchase: Purchase) -> Purchase:
    request = purchase["request"]
    question = {"title": f"Order {request}", "reason": "approval.action", "queue": "purchasing"}
    proposal = {"name": "issue_purchase_order", "arguments": purchase["offer"]}
    deadline = {"deadline_in": os.environ.get("DEADLINE", "P2D"), "on_expiry": {"do": "resume"}}
    answer = ask("order", **question, **deadline, proposal=proposal)
    if not answer.approved:
        return {"outcome": answer.message or "not ordered"}

    def issue(call):
        return issue_purchase_order(request, call)

    name, permit = "issue_purchase_order", answer.permit
    return {"outcome": current_run().effect(f"order:{request}", issue, name=name, permit=permit, repeat="by_key")}


def build() -> Any:
    graph = StateGraph(Purchase)
    graph.add_node(find_offer)
    graph.add_node(order)
    graph.add_edge(START, "find_offer")
    graph.add_edge("find_offer", "order")
    graph.add_edge("order", END)
    threads = sqlite3.connect(os.environ.get("THREADS", "threads.sqlite3"), check_same_thread=False, timeout=60)
    return graph.compile(checkpointer=SqliteSaver(threads))


def carry_out(key: str) -> Any:
    try:
        return client.run(key, title=f"Order {key}", code_version="langgraph").execute(agent, lease_seconds=5)
    except RunEnded as ended:
        return f"not ordered: {ended.status}"


client = Client()
agent = GraphAgent(build(), first_input=lambda run: {"request": run.key}, result=lambda purchase: purchase["outcome"])
if __name__ == "__main__":
    with ThreadPoolExecutor() as pool:
        for key, outcome in zip(sys.argv[1:], pool.map(carry_out, sys.argv[1:]), strict=True):
            print(json.dumps({key: outcome}, default=str), flush=True)
