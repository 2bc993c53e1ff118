"""A purchase over RabbitMQ: `python agent.py PR-1 PR-2`. Kill it, or the broker, and start it again as it is.

Needs RabbitMQ at `AMQP` (`amqp://guest:guest@localhost/`). People's answers come as messages; a consumer places the orders.
Messages in the queue `signals` become signals.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import aio_pika
from reviewqueue_client import AsyncClient
from reviewqueue_client.adapters.amqp import OutcomePublisher, SignalConsumer, outcome_of

sys.path.insert(0, str(Path(__file__).parents[1]))
from supplier import issue_purchase_order

RESULTS = Path("amqp-results.jsonl")


def results() -> dict[str, Any]:
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    return {key: outcome for line in lines for key, outcome in json.loads(line).items()}


async def place_order(message: aio_pika.abc.AbstractIncomingMessage) -> None:
    key, outcome = outcome_of(message)
    if key not in results():  # a message can come twice
        result = outcome.message or f"not ordered: {outcome.status}"
        if outcome.approved:
            result = issue_purchase_order(key, outcome.arguments)
        with RESULTS.open("a") as file:
            file.write(json.dumps({key: result}) + "\n")
    await message.ack()


async def main(keys: list[str]) -> None:
    address = os.environ.get("AMQP", "amqp://guest:guest@localhost/")
    broker = await aio_pika.connect_robust(address, reconnect_interval=0.5)
    channel = await broker.channel(publisher_confirms=True)
    await channel.set_qos(prefetch_count=10)
    outcomes, incoming, _ = [
        await channel.declare_queue(name, durable=True) for name in ("outcomes", "signals", "dead")
    ]
    await outcomes.consume(place_order)
    async with AsyncClient() as client:
        signals = SignalConsumer(client, channel.default_exchange, dead="dead")
        await incoming.consume(signals.handle)
        publisher = OutcomePublisher(client, channel.default_exchange, routing_key="outcomes")
        hoist = {"supplier": "S-17", "item": "Hoist", "amount": "184000.00"}
        for key in keys:
            proposal = {"name": "issue_purchase_order", "arguments": hoist}
            question = {"title": f"Order {key}", "reason": "approval.action", "queue": "purchasing"}
            deadline = {"deadline_in": os.environ.get("DEADLINE", "P2D")}
            if key not in results():
                await publisher.answers.create({"key": key, **question, **deadline, "proposal": proposal}, target=key)
        running = asyncio.create_task(publisher.run(cursor="amqp-events"))
        while not set(keys) <= set(results()):
            await asyncio.sleep(0.1)
        running.cancel()
    for key in keys:
        print(json.dumps({key: results()[key]}), flush=True)
    await broker.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
