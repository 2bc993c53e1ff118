"""A purchase over Redis streams: `python agent.py PR-1 PR-2`. Kill it, or Redis, and start it again as it is.

Needs Redis or Valkey at `REDIS` (`redis://localhost:6379`). People's answers come as entries of a stream; a consumer group
places the orders. Entries of the stream `signals` become signals.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from redis.asyncio import Redis
from reviewqueue_client import AsyncClient
from reviewqueue_client.adapters.redis import OutcomePublisher, SignalConsumer, consume, outcome_of

sys.path.insert(0, str(Path(__file__).parents[1]))
from supplier import issue_purchase_order

RESULTS = Path("redis-results.jsonl")


def results() -> dict[str, Any]:
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    return {key: outcome for line in lines for key, outcome in json.loads(line).items()}


async def place_order(entry: Any) -> None:
    key, outcome = outcome_of(entry)
    if key not in results():  # an entry can come twice
        result = outcome.message or f"not ordered: {outcome.status}"
        if outcome.approved:
            result = issue_purchase_order(key, outcome.arguments)
        with RESULTS.open("a") as file:
            file.write(json.dumps({key: result}) + "\n")


async def main(keys: list[str]) -> None:
    redis = Redis.from_url(os.environ.get("REDIS", "redis://localhost:6379"))
    async with AsyncClient() as client, asyncio.TaskGroup() as tasks:
        signals = SignalConsumer(client, redis, dead="dead")
        publisher = OutcomePublisher(client, redis, stream="outcomes")
        hoist = {"supplier": "S-17", "item": "Hoist", "amount": "184000.00"}
        for key in keys:
            proposal = {"name": "issue_purchase_order", "arguments": hoist}
            question = {"title": f"Order {key}", "reason": "approval.action", "queue": "purchasing"}
            deadline = {"deadline_in": os.environ.get("DEADLINE", "P2D")}
            if key not in results():
                await publisher.answers.create({"key": key, **question, **deadline, "proposal": proposal}, target=key)
        group = {"group": "buyer", "consumer": "agent"}
        running = [
            tasks.create_task(consume(redis, "outcomes", place_order, idle_seconds=5, **group)),
            tasks.create_task(consume(redis, "signals", signals.handle, idle_seconds=5, **group)),
            tasks.create_task(publisher.run(cursor="redis-events")),
        ]
        while not set(keys) <= set(results()):
            await asyncio.sleep(0.1)
        for task in running:
            task.cancel()
    for key in keys:
        print(json.dumps({key: results()[key]}), flush=True)
    await redis.aclose()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
