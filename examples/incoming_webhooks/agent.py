"""An agent that waits for a payment at Stripe: `python agent.py PR-1`. Kill it and start it again as it is.

Stripe sends its webhooks to `http://localhost:8766/stripe` (`PORT`), signed with the secret `STRIPE_SECRET`.
"""

import asyncio
import json
import os
import sys
from typing import Any

from hypercorn.asyncio import serve
from hypercorn.config import Config
from reviewqueue_client import AsyncClient, AsyncRun
from reviewqueue_client.adapters.incoming_webhooks import IncomingWebhooks, Source, Stripe

ADDRESS = f"127.0.0.1:{os.environ.get('PORT', '8766')}"
stripe = Source(
    path="/stripe",
    sender=Stripe(os.environ.get("STRIPE_SECRET", "whsec_example")),
    types={"payment_intent.succeeded"},
    correlation="/data/object/metadata/order",
    body="/data/object",
)


async def wait_for_payment(run: AsyncRun) -> Any:
    event = {"kind": "event", "reason": "event", "title": f"Payment of {run.key}", "correlation": run.key}
    paid = await run.ask("payment", **event)
    return {"paid": paid.input["amount"], "event": paid.signal["id"]}


async def main(keys: list[str]) -> None:
    config, stop = Config(), asyncio.Event()
    config.bind = [ADDRESS]
    async with AsyncClient() as client:
        webhooks = IncomingWebhooks(client, stripe)
        server = asyncio.create_task(serve(webhooks, config, shutdown_trigger=stop.wait))
        for key in keys:
            run = await client.run(key, title=f"Sell to {key}", code_version="webhooks")
            print(json.dumps({key: await run.execute(wait_for_payment, lease_seconds=5)}), flush=True)
        stop.set()
        await server


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
