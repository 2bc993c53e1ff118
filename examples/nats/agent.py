"""A purchase over NATS: `python agent.py PR-1 PR-2`. Kill it, or the broker, whenever you like and start it again as it is.

Needs a NATS server with JetStream at `NATS` (`nats://localhost:4222`): `nats-server --jetstream`. People's answers come as
messages; a durable consumer places the orders. Messages on `signals.*` become signals.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import nats
from nats.js.api import ConsumerConfig, StreamConfig
from reviewqueue_client import AsyncClient
from reviewqueue_client.adapters.nats import OutcomePublisher, SignalConsumer, outcome_of

sys.path.insert(0, str(Path(__file__).parents[1]))
from supplier import issue_purchase_order

RESULTS = Path("nats-results.jsonl")


def results() -> dict[str, Any]:
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    return {key: outcome for line in lines for key, outcome in json.loads(line).items()}


async def place_order(message: Any) -> None:
    key, outcome = outcome_of(message)
    if key not in results():  # a message can come twice
        result = outcome.message or f"not ordered: {outcome.status}"
        if outcome.approved:
            result = issue_purchase_order(key, outcome.arguments)
        with RESULTS.open("a") as file:
            file.write(json.dumps({key: result}) + "\n")
    await message.ack()


async def main(keys: list[str]) -> None:
    address = os.environ.get("NATS", "nats://localhost:4222")
    broker = await nats.connect(address, max_reconnect_attempts=-1, reconnect_time_wait=0.2, error_cb=ignore)
    stream = broker.jetstream()
    await stream.add_stream(StreamConfig(name="reviewqueue", subjects=["outcomes", "signals.*", "dead"]))
    await stream.subscribe("outcomes", durable="orders", cb=place_order, manual_ack=True, config=again())
    async with AsyncClient() as client:
        signals = SignalConsumer(client, stream, dead="dead")
        await stream.subscribe("signals.*", durable="signals", cb=signals.handle, manual_ack=True, config=again())
        publisher = OutcomePublisher(client, stream, subject="outcomes")
        hoist = {"supplier": "S-17", "item": "Hoist", "amount": "184000.00"}
        for key in keys:
            proposal = {"name": "issue_purchase_order", "arguments": hoist}
            question = {"title": f"Order {key}", "reason": "approval.action", "queue": "purchasing"}
            deadline = {"deadline_in": os.environ.get("DEADLINE", "P2D")}
            if key not in results():
                await publisher.answers.create({"key": key, **question, **deadline, "proposal": proposal}, target=key)
        running = asyncio.create_task(publisher.run(cursor="nats-events"))
        while not set(keys) <= set(results()):
            await asyncio.sleep(0.1)
        running.cancel()
    for key in keys:
        print(json.dumps({key: results()[key]}), flush=True)
    await broker.close()


def again() -> ConsumerConfig:
    """Return the configuration of one subscription: a message without acknowledgement comes again after 5 seconds."""
    return ConsumerConfig(ack_wait=5)


async def ignore(error: Exception) -> None:
    """The broker is away; the client connects again by itself."""


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
