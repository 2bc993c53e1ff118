"""A purchase as a Restate workflow: `python agent.py PR-1 PR-2`. Kill it whenever you like and start it again as it is.

Needs a Restate server: `RESTATE_INGRESS` (`http://localhost:8080`) and `RESTATE_ADMIN` (`http://localhost:9070`). This
process serves the workflow at `PORT` (9080), registers it, starts the purchases, and sends them the answers.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import httpx
import restate
from hypercorn.asyncio import serve
from hypercorn.config import Config
from reviewqueue_client import AsyncClient
from reviewqueue_client.adapters.restate import AnswerSender, ask

sys.path.insert(0, str(Path(__file__).parents[1]))
import supplier

INGRESS = os.environ.get("RESTATE_INGRESS", "http://localhost:8080")
ADMIN = os.environ.get("RESTATE_ADMIN", "http://localhost:9070")
PORT = int(os.environ.get("PORT", "9080"))
client = AsyncClient()
purchase = restate.Workflow("Purchase")


@purchase.main()
async def run(context: restate.WorkflowContext, deadline: str) -> Any:
    key, hoist = context.key(), {"supplier": "S-17", "item": "Hoist", "amount": "184000.00"}
    proposal = {"name": "issue_purchase_order", "arguments": hoist}
    question = {"title": f"Order {key}", "reason": "approval.action", "queue": "purchasing", "proposal": proposal}
    outcome = await ask(context, client, "order", **question, deadline_in=deadline)
    if not outcome.approved:
        return outcome.message or f"not ordered: {outcome.status}"

    def issue_purchase_order() -> Any:
        return supplier.issue_purchase_order(key, outcome.arguments)

    return await context.run_typed("issue_purchase_order", issue_purchase_order)


async def carry_out(http: httpx.AsyncClient, key: str) -> Any:
    body = json.dumps(os.environ.get("DEADLINE", "P2D"))
    headers = {"Content-Type": "application/json"}
    started = await http.post(f"{INGRESS}/Purchase/{key}/run/send", content=body, headers=headers)
    if started.status_code != httpx.codes.CONFLICT:  # the same key is the same workflow
        started.raise_for_status()
    finished = await http.get(f"{INGRESS}/restate/workflow/Purchase/{key}/attach", timeout=None)
    finished.raise_for_status()
    return finished.json()


async def main(keys: list[str]) -> None:
    config, stop = Config(), asyncio.Event()
    config.bind = [f"127.0.0.1:{PORT}"]
    server = asyncio.create_task(serve(restate.app([purchase]), config, shutdown_trigger=stop.wait))
    async with httpx.AsyncClient() as http:
        registration = {"uri": f"http://127.0.0.1:{PORT}", "force": True}
        while (await http.post(f"{ADMIN}/deployments", json=registration, timeout=30)).is_error:
            await asyncio.sleep(0.2)
        sender = asyncio.create_task(AnswerSender(client, INGRESS).run(cursor="restate-events"))
        for key, outcome in zip(keys, await asyncio.gather(*(carry_out(http, key) for key in keys)), strict=True):
            print(json.dumps({key: outcome}), flush=True)
    sender.cancel()
    stop.set()
    await server


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
