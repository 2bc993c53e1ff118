"""A chat agent whose sessions are transcripts: `python agent.py PR-1`. Kill it and start it again as it is.

No process keeps the conversation: it is rebuilt from the transcript after the answer. If the customer writes meanwhile
(`python customer.py PR-1 "Order 2 hoists."`), the approval no longer counts, and people are asked again about all messages.
The model is scripted, so that the example needs no key of a provider.
"""

import json
import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
from reviewqueue_client import Client, Run, RunEnded
from reviewqueue_client.adapters.session_store import ask
from supplier import issue_purchase_order
from transcripts import append, messages_of

SYSTEM = "You order hoists for customers. One hoist costs 184000.00 EUR."


def rebuilt(run: Run) -> list[dict[str, Any]]:
    """Return what the model reads: the prompt and the transcript without the messages of this run."""
    return [{"role": "system", "content": SYSTEM}, *messages_of(run.key, without=run.id)]


def scripted(context: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the call that a model would propose."""
    number = max(int(found) for found in re.findall(r"Order (\d+)", context[-1]["content"]))
    return {"supplier": "S-17", "item": "Hoist", "amount": f"{184000 * number}.00"}


def reply(run: Run) -> Any:
    context = rebuilt(run)
    proposal = {"name": "issue_purchase_order", "arguments": scripted(context)}
    said = [{"label": message["role"], "value": message["content"]} for message in context[1:]]
    question = {"title": f"Order {run.key}", "reason": "approval.action", "queue": "purchasing", "evidence": said}
    expiry = {"deadline_in": os.environ.get("DEADLINE", "P2D"), "on_expiry": {"do": "resume"}}
    answer = ask(run, "order", context, **question, **expiry, proposal=proposal)
    result = answer.message or "not ordered"
    if answer.approved:

        def issue(call: dict[str, Any]) -> Any:
            return issue_purchase_order(run.key, call)

        name, permit = "issue_purchase_order", answer.permit
        result = run.effect(f"order:{run.key}", issue, name=name, permit=permit, repeat="by_key")
    append(run.key, "assistant", json.dumps(result), run=run.id)
    return result


def carry_out(key: str) -> Any:
    append(key, "user", "Order 1 hoist.", run="first")
    try:
        return client.run(key, title=f"Order {key}", code_version="session-store").execute(reply, lease_seconds=5)
    except RunEnded as ended:
        return f"not ordered: {ended.status}"


client = Client()
if __name__ == "__main__":
    with ThreadPoolExecutor() as pool:
        for key, outcome in zip(sys.argv[1:], pool.map(carry_out, sys.argv[1:]), strict=True):
            print(json.dumps({key: outcome}, default=str), flush=True)
