"""An agent in LangChain whose tool call people approve: `python agent.py PR-1`. Kill it and start it again as it is.

The model is scripted, so that the example needs no key of a provider.
"""

import json
import os
import sqlite3
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from reviewqueue_client import Client, RunEnded
from reviewqueue_client.adapters.langgraph import GraphAgent, current_run, permit_for

sys.path.insert(0, str(Path(__file__).parents[1]))
import supplier as shop


def issue_purchase_order(supplier: str, item: str, amount: str) -> str:
    """Issue a purchase order to a supplier."""
    run, call = current_run(), {"supplier": supplier, "item": item, "amount": amount}

    def issue(arguments):
        return shop.issue_purchase_order(run.key, arguments)

    name, permit = "issue_purchase_order", permit_for(call)
    receipt = run.effect(f"order:{run.key}", issue, name=name, permit=permit, repeat="by_key")
    return json.dumps(receipt)


class Scripted(GenericFakeChatModel):
    """A model that orders a hoist, and ends with the result of the tool."""

    def bind_tools(self, tools: Any, **more: Any) -> Any:
        return self

    def _generate(self, messages: Any, *arguments: Any, **more: Any) -> Any:
        said = messages[-1]
        hoist = {"supplier": "S-17", "item": "Hoist", "amount": "184000.00"}
        call = {"name": "issue_purchase_order", "args": hoist, "id": "call_1"}
        answer = AIMessage(said.text) if isinstance(said, ToolMessage) else AIMessage("", tool_calls=[call])
        return GenericFakeChatModel(messages=iter([answer]))._generate(messages)


def build() -> Any:
    gate = HumanInTheLoopMiddleware(interrupt_on={"issue_purchase_order": True})
    threads = sqlite3.connect(os.environ.get("THREADS", "threads.sqlite3"), check_same_thread=False, timeout=60)
    model = Scripted(messages=iter([]))
    return create_agent(model, [issue_purchase_order], middleware=[gate], checkpointer=SqliteSaver(threads))


def carry_out(key: str) -> Any:
    expiry = {"deadline_in": os.environ.get("DEADLINE", "P2D"), "on_expiry": {"do": "resume"}}
    agent = GraphAgent(
        build(),
        first_input=lambda run: {"messages": [HumanMessage(f"Order a hoist for {run.key}.")]},
        result=lambda state: state["messages"][-1].text,
        defaults={"queue": "purchasing", "evidence": [{"label": "Request", "value": key}], **expiry},
    )
    try:
        return client.run(key, title=f"Order {key}", code_version="langchain").execute(agent, lease_seconds=5)
    except RunEnded as ended:
        return f"not ordered: {ended.status}"


client = Client()
if __name__ == "__main__":
    with ThreadPoolExecutor() as pool:
        for key, outcome in zip(sys.argv[1:], pool.map(carry_out, sys.argv[1:]), strict=True):
            print(json.dumps({key: outcome}, default=str), flush=True)
