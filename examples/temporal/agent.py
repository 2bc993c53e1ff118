"""A purchase as a Temporal workflow: `python agent.py PR-1 PR-2`. Kill it whenever you like and start it again as it is.

Needs a Temporal server at `TEMPORAL` (`localhost:7233`): `temporal server start-dev`. This process is the worker, starts the
workflows, and sends them the answers; the three can also be processes of their own.
"""

import asyncio
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from purchase import Purchase, issue_purchase_order
from reviewqueue_client import AsyncClient
from reviewqueue_client.adapters.temporal import AnswerSender, AskActivity
from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.worker import Worker


async def carry_out(engine: Client, key: str) -> object:
    deadline = os.environ.get("DEADLINE", "P2D")
    try:
        handle = await engine.start_workflow(
            Purchase.run,
            args=[key, deadline],
            id=key,
            task_queue="purchases",
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
        )
    except WorkflowAlreadyStartedError:  # it has ended
        handle = engine.get_workflow_handle(key)
    return await handle.result()


async def main(keys: list[str]) -> None:
    engine = await Client.connect(os.environ.get("TEMPORAL", "localhost:7233"))
    async with AsyncClient() as client:
        activities = [AskActivity(client).create, issue_purchase_order]
        async with Worker(engine, task_queue="purchases", workflows=[Purchase], activities=activities):
            sender = asyncio.create_task(AnswerSender(client, engine).run(cursor="temporal-events"))
            results = await asyncio.gather(*(carry_out(engine, key) for key in keys))
            for key, outcome in zip(keys, results, strict=True):
                print(json.dumps({key: outcome}), flush=True)
            sender.cancel()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
